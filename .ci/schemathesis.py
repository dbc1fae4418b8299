"""What the document can't say, for schemathesis: loaded by .ci/schemathesis."""

import hashlib
import json
import re

import schemathesis

KEY = re.compile(r"^[!-~]([ -~]{0,253}[!-~])?$")
NAME = re.compile(r"^[A-Za-z0-9._-]{1,128}$")


@schemathesis.serializer("application/x-ndjson")
def ndjson(context, value):
    """A batch is generated as text, good or not. What is no text can't be sent as lines: nothing is."""
    if isinstance(value, bytes):
        return value
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else b""


def plain_integers(value):
    """JSON Schema takes 75.0 for an integer; the contract wants digits alone (events-v1.md, `ms`)."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    if isinstance(value, list):
        return [plain_integers(item) for item in value]
    if isinstance(value, dict):
        return {name: plain_integers(item) for name, item in value.items()}
    return value


@schemathesis.hook
def before_call(context, case, kwargs):
    case.body = plain_integers(case.body)
    if case.operation.label == "POST /v1/subscriptions":
        tune_subscription(case.body)
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and KEY.match(key):
        # A key that was seen with another body is refused, which no schema can say.
        content = json.dumps([case.formatted_path, case.body], default=str)
        case.headers["Idempotency-Key"] = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def tune_subscription(body):
    if not isinstance(body, dict):
        return
    queues = body.get("queues")
    # Good names become one that the credential has, so that subscriptions come to be.
    if isinstance(queues, list) and queues and all(isinstance(q, str) and NAME.match(q) for q in queues):
        body["queues"] = ["reports"]
    # JSON Schema can't say that one number is not below another.
    backoff = body.get("backoff")
    if isinstance(backoff, dict):
        low, high = backoff.get("min_ms"), backoff.get("max_ms")
        if type(low) is int and type(high) is int and low > high:
            backoff["min_ms"], backoff["max_ms"] = high, low
