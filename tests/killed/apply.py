"""What `consume --exec` runs for each event: one transaction of a business database, once an event."""

import hashlib
import json
import sqlite3
import sys

from run import member

text = sys.stdin.buffer.read().decode()
event = json.loads(text)
snapshot = member(text, "snapshot")
digests = [hashlib.sha256(member(snapshot, name).encode()).hexdigest() for name in ("payload", "result")]
connection = sqlite3.connect(sys.argv[1], timeout=20, isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
# The command's own inbox: it may be run again where consumer or command was killed between its commit and the record.
new = connection.execute("INSERT INTO seen VALUES (?) ON CONFLICT DO NOTHING", (event["event_id"],)).rowcount
if new:
    connection.execute(
        "INSERT INTO effect VALUES (?, 1, ?, ?) ON CONFLICT (task_id) DO UPDATE SET times = times + 1",
        (event["task_id"], *digests),
    )
connection.execute("COMMIT")
