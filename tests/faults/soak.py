#!/usr/bin/env python3
"""A consumer whose connection is cut every second, for an hour: memory, threads and open files must be level.

    tests/faults/soak.py --perilune target/release/perilune [--seconds 3600] [--every 1.0] [--seed N]

The level after a quarter of the time is compared with that at the end, for the consumer and for the server.
"""

import argparse
import os
import pathlib
import random
import statistics
import tempfile
import time

from platform_under_test import Consumer, Publisher, Server, Verdict, end_all
from proxy import Proxy

# What an allocator may keep that nobody leaks.
GROWTH_MAX = 4 * 1024 * 1024


def measure(pid):
    status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status"))
    return {
        "bytes": int(status["VmRSS"].split()[0]) * 1024,
        "threads": int(status["Threads"]),
        "files": len(os.listdir(f"/proc/{pid}/fd")),
    }


def soak(given, draw, root):
    server = Server(given.binary, root)
    proxy = Proxy(lambda: server.listen, draw.randrange(1 << 32))
    subscription = server.subscription("soak")
    publisher = Publisher(server, 20)
    publisher.start()
    consumer = Consumer(server, subscription, f"http://127.0.0.1:{proxy.port}")
    samples = {"consumer": [], "server": []}
    begun, cuts = time.monotonic(), 0
    while time.monotonic() < begun + given.seconds:
        time.sleep(given.every)
        cuts += proxy.cut(politely=draw.random() < 0.5)
        for name, process in (("consumer", consumer.process), ("server", server.process)):
            samples[name].append(measure(process.pid))
        if len(samples["server"]) % 60 == 0:
            latest = {name: taken[-1] for name, taken in samples.items()}
            print(f"{time.monotonic() - begun:.0f} s, {cuts} cuts: {latest}", flush=True)
    verdict = Verdict()
    # A dial may take longer than the next cut waits.
    verdict.hit("half of the cuts", cuts > given.seconds / given.every / 2)
    verdict.balance("soak", server, subscription, publisher, consumer)
    server.kill()
    for name, taken in samples.items():
        quarter = len(taken) // 4
        for what in ("bytes", "threads", "files"):
            early = statistics.median(sample[what] for sample in taken[quarter:2 * quarter])
            late = statistics.median(sample[what] for sample in taken[-quarter:])
            print(f"{name}: {what} {early:.0f} in the second quarter, {late:.0f} in the last")
            if late - early > (GROWTH_MAX if what == "bytes" else 4):
                verdict.faults.append(f"{name}: {what} grew from {early:.0f} to {late:.0f}")
    return verdict


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--perilune", required=True)
    options.add_argument("--seconds", type=float, default=3_600)
    options.add_argument("--every", type=float, default=1.0, help="seconds between two cuts")
    options.add_argument("--seed", type=int, default=None)
    given = options.parse_args()
    given.binary = os.path.abspath(given.perilune)
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed} (again: --seed {seed})", flush=True)
    with tempfile.TemporaryDirectory(prefix="perilune-soak.") as folder:
        try:
            verdict = soak(given, random.Random(seed), pathlib.Path(folder))
        finally:
            end_all()
    if not verdict.tell():
        raise SystemExit(1)
    print("level to the end")


if __name__ == "__main__":
    main()
