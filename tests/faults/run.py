#!/usr/bin/env python3
"""Real faults on real sockets: what a network, a dying server and a jumping clock do, and how soon events come again.

    tests/faults/run.py --perilune target/debug/perilune [--rounds 5] [--restarts 100] [--seed N] [--only network,restarts,clock,namespace]

- network: a proxy, over TLS, that falls silent, forgets, corrupts, truncates, stalls, cuts by FIN and by RST;
- restarts: the server is killed with SIGKILL and started again, under load;
- clock: the system clock of server and consumer jumps by an hour and a day (needs libfaketime: apt install faketime);
- namespace: the consumer runs on a host of its own and its packets are dropped, with no FIN (needs root and iproute2).

After each fault consumption must resume within the backoff's cap plus one heartbeat, and at the end each event was handled once.
What can't be tried here is an error, unless --only leaves it out.
"""

import argparse
import glob
import os
import pathlib
import random
import subprocess
import tempfile
import time

from platform_under_test import BACKOFF_MAX, HEARTBEAT, Consumer, Publisher, Server, Verdict, end_all
from proxy import Proxy

PATIENCE = 90
# How long a control request may go without an answer before its connection is given up (events-v1.md).
REQUEST_TIMEOUT = 10


def network(given, draw, root, verdict):
    # Over TLS: what a network does to bytes must never look like what the platform says.
    server = Server(given.binary, root, tls=True)
    proxy = Proxy(lambda: server.listen, draw.randrange(1 << 32))
    subscription = server.subscription("network")
    publisher = Publisher(server, 40)
    publisher.start()
    consumer = Consumer(server, subscription, server.url(f"127.0.0.1:{proxy.port}"))
    consumer.resumed(time.monotonic(), PATIENCE)
    faults = ["silent", "forgotten", "corrupting", "truncating", "stalled", "FIN", "RST"] * given.rounds
    draw.shuffle(faults)
    for fault in faults:
        time.sleep(draw.uniform(0.2, 1.0))
        if fault in ("FIN", "RST"):
            healed = time.monotonic()
            verdict.hit(fault, proxy.cut(politely=fault == "FIN"))
            verdict.add(fault, consumer.resumed(healed, PATIENCE, lost=healed))
            continue
        verdict.hit(fault, proxy.forget() if fault == "forgotten" else proxy.begin(fault, allowance=draw.randrange(1, 3_000)))
        time.sleep(draw.uniform(0.2, 4.0))
        healed = proxy.heal()
        # Bytes that were lost are never sent again by a proxy: only the request's own timeout tells.
        bound = BACKOFF_MAX + HEARTBEAT + (REQUEST_TIMEOUT if fault in ("silent", "forgotten", "corrupting") else 0)
        verdict.add(fault, consumer.resumed(healed, PATIENCE), bound)
    verdict.balance("network", server, subscription, publisher, consumer)
    server.kill()


def restarts(given, draw, root, verdict):
    server = Server(given.binary, root)
    subscription = server.subscription("restarts")
    publisher = Publisher(server, 200)
    publisher.start()
    consumer = Consumer(server, subscription, f"http://{server.listen}")
    consumer.resumed(time.monotonic(), PATIENCE)
    for _ in range(given.restarts):
        time.sleep(draw.uniform(0.05, 0.5))
        lost = time.monotonic()
        server.kill()
        time.sleep(draw.uniform(0.0, 0.3))
        server.start()
        verdict.add("server killed", consumer.resumed(time.monotonic(), PATIENCE, lost))
    verdict.balance("restarts", server, subscription, publisher, consumer)
    server.kill()


def clock(given, draw, root, verdict):
    found = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
    if not found:
        raise SystemExit("FAILED: clock needs libfaketime (apt install faketime); --only leaves it out")
    offset = root / "offset"
    offset.write_text("+0")
    jumping = {"LD_PRELOAD": found[0], "FAKETIME_TIMESTAMP_FILE": str(offset), "FAKETIME_NO_CACHE": "1", "DONT_FAKE_MONOTONIC": "1"}
    server = Server(given.binary, root, variables=jumping)
    subscription = server.subscription("clock")
    publisher = Publisher(server, 40)
    publisher.start()
    consumer = Consumer(server, subscription, f"http://{server.listen}", variables=jumping)
    consumer.resumed(time.monotonic(), PATIENCE)
    for jump in ["+3600", "+0", "-3600", "+0", "+86400", "-86400", "+0"] * max(1, given.rounds // 3):
        time.sleep(draw.uniform(0.5, 1.5))
        offset.write_text(jump)
        verdict.add(f"clock jumps to {jump} s", consumer.resumed(time.monotonic(), PATIENCE))
    verdict.balance("clock", server, subscription, publisher, consumer)
    server.kill()


def namespace(given, draw, root, verdict):
    host, near, far = f"perilune{os.getpid()}", f"pn{os.getpid() % 100_000}a", f"pn{os.getpid() % 100_000}b"
    # A network of documentation addresses: nothing else is there.
    ours, theirs = "198.51.100.1", "198.51.100.2"

    def ip(*arguments, inside=False):
        subprocess.run(["ip", *(["-n", host] if inside else []), *arguments], check=True)

    try:
        ip("netns", "add", host)
        ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", host)
        ip("addr", "add", f"{ours}/30", "dev", near)
        ip("link", "set", near, "up")
        ip("addr", "add", f"{theirs}/30", "dev", far, inside=True)
        ip("link", "set", far, "up", inside=True)
        ip("link", "set", "lo", "up", inside=True)
        server = Server(given.binary, root, host=ours)
        subscription = server.subscription("namespace")
        publisher = Publisher(server, 40)
        publisher.start()
        consumer = Consumer(server, subscription, f"http://{server.listen}", prefix=["ip", "netns", "exec", host])
        consumer.resumed(time.monotonic(), PATIENCE)

        def lose(change):
            # To an address that nobody has: every packet is dropped on arrival, and nobody is told.
            for neighbour, device, inside in ((theirs, near, False), (ours, far, True)):
                wrong = ["lladdr", "02:00:00:00:00:99", "nud", "permanent"] if change == "replace" else []
                ip("neigh", change, neighbour, *wrong, "dev", device, inside=inside)

        for _ in range(given.rounds):
            time.sleep(draw.uniform(0.2, 1.0))
            lose("replace")
            time.sleep(draw.uniform(1.0, 12.0))
            if draw.random() < 0.5:
                # Both ends at once: when the packets pass again, nobody knows of the connection any more.
                server.kill()
                server.start()
            lose("del")
            verdict.add("packets dropped", consumer.resumed(time.monotonic(), PATIENCE), BACKOFF_MAX + HEARTBEAT + REQUEST_TIMEOUT)
        verdict.balance("namespace", server, subscription, publisher, consumer)
        server.kill()
    finally:
        subprocess.run(["ip", "netns", "del", host], check=False)
        subprocess.run(["ip", "link", "del", near], check=False, stderr=subprocess.DEVNULL)


def main():
    kinds = {"network": network, "restarts": restarts, "clock": clock, "namespace": namespace}
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--perilune", required=True)
    options.add_argument("--rounds", type=int, default=5, help="of each fault")
    options.add_argument("--restarts", type=int, default=100, help="of the server")
    options.add_argument("--seed", type=int, default=None)
    options.add_argument("--only", default=",".join(kinds), help="the kinds of faults, by commas")
    given = options.parse_args()
    given.binary = os.path.abspath(given.perilune)
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed} (again: --seed {seed})", flush=True)
    draw, verdict = random.Random(seed), Verdict()
    for kind in given.only.split(","):
        if kind not in kinds:
            options.error(f"--only knows {', '.join(kinds)}, not {kind}")
        with tempfile.TemporaryDirectory(prefix="perilune-faults.") as folder:
            try:
                kinds[kind](given, draw, pathlib.Path(folder), verdict)
            finally:
                end_all()
    if not verdict.tell():
        raise SystemExit(1)
    print("every fault was survived")


if __name__ == "__main__":
    main()
