"""The least collector: takes OTLP over HTTP as JSON, and appends each request to the file that it is given.

    python3 collector.py spans.ndjson    # prints its port
"""

import http.server
import json
import sys


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        with open(sys.argv[1], "a") as file:
            file.write(json.dumps(json.loads(body)) + "\n")
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Collector)
print(server.server_port, flush=True)
server.serve_forever()
