#!/usr/bin/env python3
"""Real input under SIGKILL: publisher, server and consumers are killed at random, and nothing is lost or done twice.

    tests/killed/run.py --perilune target/debug/perilune --ndjson github.ndjson [--kills 20] [--seed N]

Three subscriptions consume the same events: by `--exec` (a command with a business table of its own, in a process that is
killed too), by `--print`, and by `--forward-to`. Payloads must come out byte for byte. Needs Python's standard library alone.
The seed and the ledger are printed; the exit code is 0 only where the ledger balances.
"""

import argparse
import base64
import hashlib
import hmac
import http.server
import json
import os
import pathlib
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
WEBHOOK_SECRET = b"a secret of this run alone"
KILLED = ("publisher", "server", "exec", "print", "forward")
PATIENCE = 240  # seconds in which everything must have come after the last kill


def member(text, name):
    """The bytes of a member of the object `text`, as they stand there."""
    decoder, at = json.JSONDecoder(), text.index("{") + 1
    while True:
        while text[at] in " \t\r\n,":
            at += 1
        if text[at] == "}":
            return None
        key, at = decoder.raw_decode(text, at)
        at = text.index(":", at) + 1
        while text[at] in " \t\r\n":
            at += 1
        _, end = decoder.raw_decode(text, at)
        if key == name:
            return text[at:end]
        at = end


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


class Children:
    """What runs now, by name; the killer picks among it."""

    def __init__(self):
        self.lock, self.running, self.kills, self.over = threading.Lock(), {}, {}, False

    def start(self, name, command, env, **pipes):
        with self.lock:
            if self.over:
                # Whoever begins something now would leave it behind.
                raise SystemExit("the run is over")
            process = subprocess.Popen(command, env=env, **pipes)
            self.running[name] = process
        return process

    def kill(self, name):
        with self.lock:
            process = self.running.get(name)
            if process is None or process.poll() is not None:
                return False
            process.send_signal(signal.SIGKILL)
            self.kills[name] = self.kills.get(name, 0) + 1
        return True

    def end_all(self):
        with self.lock:
            self.over = True
            for process in self.running.values():
                if process.poll() is None:
                    process.kill()
                    process.wait()


class Receiver(http.server.BaseHTTPRequestHandler):
    """Where `--forward-to` posts: checks the signature and keeps what it got, by event."""

    received, bad = {}, []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        event, at = self.headers["webhook-id"], self.headers["webhook-timestamp"]
        mac = hmac.new(WEBHOOK_SECRET, f"{event}.{at}.".encode() + body, hashlib.sha256).digest()
        if self.headers["webhook-signature"] != "v1," + base64.b64encode(mac).decode():
            Receiver.bad.append(event)
        Receiver.received[event] = body.decode()
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def wait_until(what, holds, patience=PATIENCE):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(0.1)
    raise SystemExit(f"FAILED: {what} within {patience} s")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--perilune", required=True)
    options.add_argument("--ndjson", required=True)
    options.add_argument("--kills", type=int, default=20, help="of publisher, server and each of three consumers")
    options.add_argument("--seed", type=int, default=None)
    given = options.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed} (again: --seed {seed})", flush=True)
    draw = random.Random(seed)

    lines = [line for line in open(given.ndjson, encoding="utf-8").read().split("\n") if line]
    expected = {}
    for line in lines:
        report = json.loads(line)
        expected[report["task_id"]] = (digest(member(line, "payload") or "null"), digest(member(line, "result") or "null"))
    assert len(expected) == len(lines), "each line is a task of its own"

    folder = tempfile.TemporaryDirectory(prefix="perilune-killed.")
    root = pathlib.Path(folder.name)
    children = Children()
    try:
        run(given, draw, root, children, expected, len(lines))
    finally:
        children.end_all()
        folder.cleanup()


def run(given, draw, root, children, expected, count):
    binary, database = os.path.abspath(given.perilune), f"sqlite:{root}/server.db"
    env = {key: value for key, value in os.environ.items() if not key.startswith("PERILUNE_")}

    def perilune(*arguments, **extra):
        return json.loads(subprocess.run([binary, *arguments], env=env, check=True, stdout=subprocess.PIPE, **extra).stdout)

    created = perilune("credential", "create", "--database", database, "--name", "killed", "--queues", "github",
                       "--scopes", "report,consume,manage", "--json")
    env["PERILUNE_CREDENTIAL"] = created["credential"]

    ready = threading.Event()
    address = {}

    def serve():
        """Keeps a server running on one port."""
        listen = address.get("listen", "127.0.0.1:0")
        log = open(root / "server.log", "a+b")
        begun = log.seek(0, os.SEEK_END)
        command = [binary, "serve", "--listen", listen, "--database", database, "--lease-ms", "2000", "--heartbeat-ms", "1000"]
        process = children.start("server", command, env, stdout=subprocess.PIPE, stderr=log)
        line = process.stdout.readline().decode()
        if not line and process.wait() == -signal.SIGKILL:
            # Killed before it could listen.
            return process
        if not line:
            log.seek(begun)
            raise SystemExit(f"FAILED: the server does not start: {log.read().decode()}")
        if "listen" not in address:
            address["listen"] = line.strip().split("//")[-1].rstrip("/").split()[0]
            env["PERILUNE_URL"] = f"http://{address['listen']}"
        ready.set()
        return process

    over, unasked = threading.Event(), []

    def keep(name, begin):
        """Starts a process again whenever it has ended, until the run is over."""
        while not over.is_set():
            try:
                process = begin()
            except SystemExit as failed:
                # It would end this thread alone.
                unasked.append(str(failed))
                if not children.over:
                    print(failed, flush=True)
                return
            while process.poll() is None and not over.is_set():
                time.sleep(0.02)
            if not over.is_set() and process.poll() != -signal.SIGKILL:
                # Nobody killed it: a crash, or an error that it takes for permanent.
                unasked.append(f"{name} ended by itself with {process.returncode}")

    threading.Thread(target=keep, args=("server", serve), daemon=True).start()
    wait_until("the server listens", ready.is_set, 30)

    def subscription(name):
        found = perilune("subscription", "create", "--name", name, "--queues", "github", "--start", "earliest", "--json")
        return found["subscription_id"]

    subscriptions = {name: subscription(name) for name in ("exec", "print", "forward")}
    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()

    business = root / "business.db"
    with sqlite3.connect(business) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE seen (event_id TEXT PRIMARY KEY)")
        connection.execute("CREATE TABLE effect (task_id TEXT PRIMARY KEY, times INTEGER, payload TEXT, result TEXT)")
    printed = open(root / "printed.ndjson", "ab")
    quick = ["--reconnect-min-delay", "50ms", "--reconnect-max-delay", "500ms"]

    def consume(name, *sink, **pipes):
        command = [binary, "consume", "--subscription", subscriptions[name], "--capacity", "8", *quick, *sink]
        return children.start(name, command, {**env, **pipes.pop("more", {})}, **pipes)

    inbox = ["--inbox", f"sqlite:{root}/inbox.db", "--consumer", "killed"]
    apply = f"{sys.executable} {HERE / 'apply.py'} {business}"
    secret = {"PERILUNE_WEBHOOK_SECRET": "whsec_" + base64.b64encode(WEBHOOK_SECRET).decode()}
    url = f"http://127.0.0.1:{receiver.server_port}/events"
    log = open(root / "consumers.log", "ab")
    consumers = {
        "exec": lambda: consume("exec", "--exec", apply, *inbox, stderr=log, stdout=log),
        "print": lambda: consume("print", "--print", stdout=printed, stderr=log),
        "forward": lambda: consume("forward", "--forward-to", url, stderr=log, stdout=log, more=secret),
    }
    for name, begin in consumers.items():
        threading.Thread(target=keep, args=(name, begin), daemon=True).start()

    # The publisher is killed too: it begins again from the first line, since every line has a key.
    published = threading.Event()

    def publish():
        while not published.is_set():
            command = [binary, "publish", "--ndjson", given.ndjson, "--retry-for", "5s"]
            process = children.start("publisher", command, env, stdout=log, stderr=log)
            if process.wait() == 0 and enough.is_set():
                published.set()

    enough = threading.Event()
    threading.Thread(target=publish, daemon=True).start()

    names = [name for name in KILLED for _ in range(given.kills)]
    draw.shuffle(names)
    for at, name in enumerate(names):
        time.sleep(draw.uniform(0.02, 0.4))
        wait_until(f"{name} runs", lambda: children.kill(name), 60)
        if at == len(names) - 1:
            enough.set()
    enough.set()
    wait_until("everything is published", published.is_set)

    def applied():
        with sqlite3.connect(business) as connection:
            return connection.execute("SELECT COUNT(*) FROM effect").fetchone()[0]

    def lines_printed():
        return {json.loads(line)["event_id"] for line in (root / "printed.ndjson").read_text("utf-8").split("\n") if ends(line)}

    def ends(line):
        try:
            return bool(line) and bool(json.loads(line))
        except json.JSONDecodeError:
            return False  # a line that a kill cut short; its event comes again

    wait_until(f"{count} events applied", lambda: applied() == count)
    wait_until(f"{count} events forwarded", lambda: len(Receiver.received) == count)
    wait_until(f"{count} events printed", lambda: len(lines_printed()) == count)

    def settled(name):
        shown = perilune("subscription", "show", subscriptions[name], "--json")
        return shown["ready"] == shown["leased"] == shown["expired"] == shown["lag"] == 0 and shown["acknowledged"] == count

    wait_until("every delivery is acknowledged", lambda: all(map(settled, subscriptions)))
    over.set()

    faults = list(unasked)
    with sqlite3.connect(business) as connection:
        rows = connection.execute("SELECT task_id, times, payload, result FROM effect").fetchall()
    faults += [f"task {task} was applied {times} times" for task, times, _, _ in rows if times != 1]
    faults += [f"task {task} came out changed" for task, _, payload, result in rows if expected[task] != (payload, result)]
    texts = list(Receiver.received.values())
    texts += [line for line in (root / "printed.ndjson").read_text("utf-8").split("\n") if ends(line)]
    for text in texts:
        snapshot = member(text, "snapshot")
        got = (digest(member(snapshot, "payload")), digest(member(snapshot, "result")))
        if expected[json.loads(text)["task_id"]] != got:
            faults.append(f"task {json.loads(text)['task_id']} was printed or forwarded changed")
    faults += [f"event {event} had a bad signature" for event in Receiver.bad]
    faults += [f"{name} was killed {children.kills.get(name, 0)} times" for name in KILLED
               if children.kills.get(name, 0) < given.kills]

    print(f"published     {count}\napplied       {len(rows)}, each once\nforwarded     {len(Receiver.received)}\n"
          f"printed       {len(lines_printed())}\nacknowledged  {count} on each of {len(subscriptions)} subscriptions\n"
          f"kills         {children.kills}")
    for fault in faults:
        print(f"FAULT: {fault}")
    if faults:
        raise SystemExit(1)
    print("the ledger balances")


if __name__ == "__main__":
    main()
