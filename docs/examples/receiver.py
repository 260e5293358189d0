"""A receiver that runs: WEBHOOK_SECRET=whsec_... python receiver.py 8080

Each event is kept once, in events.db in the working directory, over restarts too.
"""

import os
import sqlite3
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

from staffbooking_core.webhook_receiver import WebhookReceiver, WebhookRefused

RECEIVER = WebhookReceiver(os.environ["WEBHOOK_SECRET"].split(","))  # old,new while it is rotated
EVENTS = sqlite3.connect("events.db", isolation_level=None)
EVENTS.execute("CREATE TABLE IF NOT EXISTS events (id TEXT PRIMARY KEY, body BLOB NOT NULL)")


class Endpoint(BaseHTTPRequestHandler):
    timeout = 5  # whoever stalls keeps the others waiting no longer

    def do_POST(self) -> None:
        body = self.rfile.read(min(abs(int(self.headers.get("Content-Length", 0))), 65536))
        try:
            received = RECEIVER.receive(dict(self.headers.items()), body, time.time())
        except WebhookRefused as refused:
            self.send_error(400, str(refused))
            return
        event = received.envelope["id"]
        kept = EVENTS.execute("INSERT OR IGNORE INTO events VALUES (?, ?)", (event, body))
        if kept.rowcount:  # keep it, answer at once, and do the work afterwards
            print(received.envelope["event"], event, flush=True)
        self.send_response(204)
        self.end_headers()


server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Endpoint)
print("listening on port", server.server_port, flush=True)
server.serve_forever()
