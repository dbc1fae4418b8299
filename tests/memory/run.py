#!/usr/bin/env python3
"""What memory a consumer takes under a backlog, and a server for its idle sessions.

    tests/memory/run.py --perilune target/release/perilune [--backlog 1000000] [--sessions 1000]

A consumer first works on a backlog of 1,000 events, then on a large one; its peak must stay within 5 MiB. Then idle sessions
are opened on the server, and its memory is read before and after. Needs Linux and Python's standard library alone.
"""

import argparse
import base64
import json
import os
import pathlib
import secrets
import socket
import struct
import subprocess
import tempfile
import time

MIB = 1024 * 1024
GROWTH_MAX = 5 * MIB


def resident(pid, field="VmRSS"):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"FAILED: process {pid} is gone")


def lines(path, count, first):
    with open(path, "w") as file:
        for n in range(first, first + count):
            file.write('{"queue":"q","task_id":"%032x","operation":"Op","status":"succeeded","result":"%s"}\n' % (n, "x" * 200))


def open_session(port, credential, subscription):
    """A registered WebSocket that says nothing more."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    key = base64.b64encode(secrets.token_bytes(16)).decode()
    connection.sendall(
        f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: orbit.events.v1\r\nAuthorization: Bearer {credential}\r\n\r\n".encode()
    )
    register = json.dumps({"type": "register", "message_id": secrets.token_hex(16), "subscription_id": subscription, "capacity": 1}).encode()
    mask = secrets.token_bytes(4)
    masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(register))
    connection.sendall(b"\x81" + struct.pack("!BH", 0x80 | 126, len(register)) + mask + masked)
    answer = b""
    while b'"welcome"' not in answer:
        chunk = connection.recv(65536)
        if not chunk:
            raise SystemExit(f"FAILED: a session was refused: {answer.decode(errors='replace')}")
        answer += chunk
    return connection


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--perilune", required=True)
    options.add_argument("--backlog", type=int, default=1_000_000)
    options.add_argument("--sessions", type=int, default=1_000)
    options.add_argument("--seconds", type=int, default=60, help="for which the consumer works on the backlog")
    given = options.parse_args()
    binary = os.path.abspath(given.perilune)
    with tempfile.TemporaryDirectory(prefix="perilune-memory.") as folder:
        measure(given, binary, pathlib.Path(folder))


def measure(given, binary, root):
    env = {key: value for key, value in os.environ.items() if not key.startswith("PERILUNE_")}
    database = f"sqlite:{root}/server.db"

    def perilune(*arguments):
        return json.loads(subprocess.run([binary, *arguments, "--json"], env=env, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)

    env["PERILUNE_CREDENTIAL"] = perilune("credential", "create", "--database", database, "--name", "m", "--queues", "q", "--scopes", "report,consume,manage")["credential"]
    command = [binary, "serve", "--listen", "127.0.0.1:0", "--database", database, "--sessions-per-credential", "10000"]
    server = subprocess.Popen(command, env=env, stdout=subprocess.PIPE)
    try:
        address = server.stdout.readline().decode().strip().split("//")[-1].rstrip("/").split()[0]
        env["PERILUNE_URL"], port = f"http://{address}", int(address.rsplit(":", 1)[1])

        def subscription(name, start):
            return perilune("subscription", "create", "--name", name, "--queues", "q", "--start", start)["subscription_id"]

        def publish(count, first):
            lines(root / "events.ndjson", count, first)
            subprocess.run([binary, "publish", "--ndjson", root / "events.ndjson"], env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def peak(subscription, seconds, until):
            consumer = subprocess.Popen([binary, "consume", "--subscription", subscription, "--capacity", "32", "--print"], env=env, stdout=subprocess.DEVNULL)
            end = time.monotonic() + seconds
            while time.monotonic() < end and perilune("subscription", "show", subscription)["acknowledged"] < until:
                time.sleep(0.5)
            done, most = perilune("subscription", "show", subscription)["acknowledged"], resident(consumer.pid, "VmHWM")
            consumer.terminate()
            consumer.wait()
            return done, most

        small = subscription("small", "earliest")
        publish(1_000, 0)
        done, at_small = peak(small, 120, 1_000)
        print(f"consumer, backlog 1,000: {done} consumed, peak {at_small / MIB:.1f} MiB", flush=True)
        begun = time.monotonic()
        publish(given.backlog - 1_000, 1_000)
        print(f"published {given.backlog - 1_000} in {time.monotonic() - begun:.0f} s", flush=True)
        done, at_large = peak(subscription("large", "earliest"), given.seconds, given.backlog)
        growth = at_large - at_small
        print(f"consumer, backlog {given.backlog}: {done} consumed in {given.seconds} s, peak {at_large / MIB:.1f} MiB, {growth / MIB:+.1f} MiB", flush=True)

        homes = [subscription(f"idle{n}", "latest") for n in range((given.sessions + 63) // 64)]
        before = resident(server.pid)
        sessions = [open_session(port, env["PERILUNE_CREDENTIAL"], homes[n // 64]) for n in range(given.sessions)]
        after = resident(server.pid)
        each = (after - before) / max(1, given.sessions) / 1024
        print(f"server: {before / MIB:.1f} MiB, with {len(sessions)} idle sessions {after / MIB:.1f} MiB: {each:.1f} KiB a session")
        if growth > GROWTH_MAX:
            raise SystemExit("FAILED: the consumer's memory grows with the backlog")
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()
