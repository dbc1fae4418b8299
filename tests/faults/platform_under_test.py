"""What every fault is tried on: a real server, a publisher that never rests, a consumer whose every event is seen."""

import collections
import http.client
import json
import os
import signal
import ssl
import statistics
import subprocess
import threading
import time

HEARTBEAT = 1.0  # seconds, as the server is told
LEASE = 4.0
BACKOFF_MAX = 2.0  # as the consumer is told
QUEUE = "faults"


# Whatever is started here, so that nothing outlives a run that fails.
STARTED = []


def start(command, **pipes):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, **pipes)
    STARTED.append(process)
    return process


def end_all():
    for process in STARTED:
        if process.poll() is None:
            process.kill()
            process.wait()


class Server:
    """`perilune serve` on an embedded database, started again at will on the same address."""

    def __init__(self, binary, root, host="127.0.0.1", variables=None, tls=False):
        self.binary, self.root, self.listen, self.tls = binary, root, f"{host}:0", tls
        self.scheme, self.certificate, self.key = "https" if tls else "http", root / "cert.pem", root / "key.pem"
        self.env = {key: value for key, value in os.environ.items() if not key.startswith("PERILUNE_")}
        self.database, self.variables, self.process = f"sqlite:{root}/server.db", variables or {}, None
        if host != "127.0.0.1":
            self.env["PERILUNE_ALLOW_PLAINTEXT"] = "true"
        if tls:
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                            "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE",
                            "-keyout", self.key, "-out", self.certificate], check=True, stderr=subprocess.DEVNULL)
            self.env["PERILUNE_CA_FILE"] = str(self.certificate)
        self.env["PERILUNE_CREDENTIAL"] = self.perilune(
            "credential", "create", "--database", self.database, "--name", "faults", "--queues", QUEUE,
            "--scopes", "report,consume,manage", "--json")["credential"]
        self.start()

    def perilune(self, *arguments):
        made = subprocess.run([self.binary, *arguments], env=self.env, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return json.loads(made.stdout)

    def start(self):
        command = [self.binary, "serve", "--listen", self.listen, "--database", self.database,
                   "--lease-ms", str(int(LEASE * 1000)), "--heartbeat-ms", str(int(HEARTBEAT * 1000)),
                   *(["--tls-cert", self.certificate, "--tls-key", self.key] if self.tls else [])]
        log = open(self.root / "server.log", "ab")
        self.process = start(command, env={**self.env, **self.variables}, stderr=log)
        line = self.process.stdout.readline().decode()
        if not line:
            raise SystemExit("FAILED: the server does not start: " + (self.root / "server.log").read_text()[-2_000:])
        self.listen = line.strip().split("//")[-1].rstrip("/").split()[0]
        self.env["PERILUNE_URL"] = self.url(self.listen)

    def url(self, address):
        """How a client names the server, or whoever stands for it at `address`."""
        return f"https://localhost:{address.rsplit(':', 1)[1]}" if self.tls else f"http://{address}"

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def subscription(self, name):
        return self.perilune("subscription", "create", "--name", name, "--queues", QUEUE, "--start", "earliest",
                             "--json")["subscription_id"]

    def show(self, subscription):
        return self.perilune("subscription", "show", subscription, "--json")


class Publisher(threading.Thread):
    """Reports results without a break, straight at the server; remembers what was answered for."""

    def __init__(self, server, a_second):
        super().__init__(daemon=True)
        self.server, self.pause, self.over = server, 1 / a_second, threading.Event()
        self.reported = set()

    def connect(self):
        host, port = self.server.listen.rsplit(":", 1)
        if not self.server.tls:
            return http.client.HTTPConnection(host, int(port), timeout=5)
        trust = ssl.create_default_context(cafile=self.server.certificate)
        return http.client.HTTPSConnection("localhost", int(port), timeout=5, context=trust)

    def run(self):
        connection, number = None, 0
        while not self.over.is_set():
            task = f"{number:032x}"
            try:
                if connection is None:
                    connection = self.connect()
                body = json.dumps({"operation": "Try", "status": "succeeded", "result": number})
                connection.request("POST", f"/v1/queues/{QUEUE}/tasks/{task}/events", body, {
                    "Authorization": "Bearer " + self.server.env["PERILUNE_CREDENTIAL"],
                    "Content-Type": "application/json", "Idempotency-Key": task})
                answer = connection.getresponse()
                answer.read()
                if answer.status in (200, 201):
                    self.reported.add(task)
                    number += 1
            except (OSError, http.client.HTTPException):
                # Asked again with the same key: whether it was written does not matter.
                connection = None
            self.over.wait(self.pause)


class Consumer:
    """`perilune consume --print` with an inbox: each line it prints is counted, each notice noted with its time."""

    def __init__(self, server, subscription, url, prefix=(), variables=None):
        self.seen, self.connected, self.confirmed = collections.Counter(), 0, 0
        self.lock, self.log = threading.Condition(), collections.deque(maxlen=50)
        command = [*prefix, server.binary, "consume", "--subscription", subscription, "--url", url, "--capacity", "8", "--print", "--notices",
                   "--reconnect-min-delay", "100ms", "--reconnect-max-delay", f"{int(BACKOFF_MAX * 1000)}ms",
                   "--inbox", f"sqlite:{server.root}/inbox.db", "--consumer", "faults"]
        self.process = start(command, env={**server.env, **(variables or {})}, stderr=subprocess.PIPE)
        for read in (self.read_events, self.read_notices):
            threading.Thread(target=read, daemon=True).start()

    def read_events(self):
        for line in self.process.stdout:
            with self.lock:
                self.seen[json.loads(line)["task_id"]] += 1

    def read_notices(self):
        for line in self.process.stderr:
            now = time.monotonic()
            with self.lock:
                try:
                    kind = json.loads(line)["kind"]
                except (ValueError, KeyError):
                    self.log.append(line.decode(errors="replace"))
                    continue
                if kind == "connected":
                    self.connected = now
                if kind == "acknowledged":
                    self.confirmed = now
                self.lock.notify_all()

    def resumed(self, healed, patience, lost=None):
        """How long after `healed` something was confirmed; on a connection made after `lost`, where the one before is gone."""
        with self.lock:
            came = self.lock.wait_for(lambda: self.is_back(healed, lost) or self.process.poll() is not None, patience)
            log = "".join(self.log)
        if self.process.poll() is not None:
            raise SystemExit(f"FAILED: the consumer ended with {self.process.returncode}: {log}")
        if not came:
            raise SystemExit(f"FAILED: nothing confirmed within {patience:.0f} s of the end of a fault: {log}")
        return time.monotonic() - healed

    def is_back(self, healed, lost):
        return self.confirmed >= healed and (lost is None or self.confirmed > self.connected >= lost)

    def stop(self):
        self.process.terminate()
        return self.process.wait(60)


class Verdict:
    """How long consumption took to resume, by fault, against what the backoff and the heartbeat allow."""

    # Over the bound itself: the dial, and what a busy machine adds.
    SLACK = 2.0

    def __init__(self):
        self.took, self.faults = collections.defaultdict(list), []

    def hit(self, fault, connections):
        """A fault that meets no connection proves nothing."""
        if not connections:
            self.faults.append(f"{fault}: there was no connection to try it on")

    def add(self, fault, seconds, bound=BACKOFF_MAX + HEARTBEAT):
        self.took[fault].append(seconds)
        if seconds > bound + self.SLACK:
            self.faults.append(f"{fault}: consumption resumed after {seconds:.1f} s, bound {bound:.1f} s")

    def balance(self, what, server, subscription, publisher, consumer):
        """Stops the publisher, waits for the rest, and compares."""
        publisher.over.set()
        publisher.join(30)
        end = time.monotonic() + 120
        while time.monotonic() < end:
            shown = server.show(subscription)
            if shown["ready"] == shown["leased"] == shown["lag"] == 0:
                break
            time.sleep(0.2)
        else:
            self.faults.append(f"{what}: deliveries are left: {shown}")
        code = consumer.stop()
        with consumer.lock:
            seen = dict(consumer.seen)
        missing, twice = publisher.reported - seen.keys(), [task for task, times in seen.items() if times > 1]
        print(f"{what}: {len(publisher.reported)} reported, {len(seen)} handled, {len(missing)} missing, {len(twice)} twice, exit {code}",
              flush=True)
        if missing or twice or code != 0:
            self.faults.append(f"{what}: {len(missing)} missing, {len(twice)} twice, exit {code}")

    def tell(self):
        for fault, took in sorted(self.took.items()):
            print(f"{fault:<34} {len(took):>4} times, resumed after {statistics.median(took):.2f} s in the median, {max(took):.2f} s at the most")
        for fault in self.faults:
            print(f"FAULT: {fault}")
        return not self.faults
