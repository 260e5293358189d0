"""A receiver that runs: WEBHOOK_SECRET=whsec_... python receiver.py 8080"""

import os
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

from staffbooking_core.webhook_receiver import WebhookReceiver, WebhookRefused

RECEIVER = WebhookReceiver(os.environ["WEBHOOK_SECRET"].split(","))  # old,new while it is rotated


class Endpoint(BaseHTTPRequestHandler):
    timeout = 5  # whoever stalls keeps the others waiting no longer

    def do_POST(self) -> None:
        body = self.rfile.read(min(abs(int(self.headers.get("Content-Length", 0))), 65536))
        try:
            received = RECEIVER.receive(dict(self.headers.items()), body, time.time())
        except WebhookRefused as refused:
            self.send_error(400, str(refused))
            return
        if not received.is_duplicate:  # keep it, answer at once, and do the work afterwards
            print(received.envelope["event"], received.envelope["id"], flush=True)
            RECEIVER.mark_processed(received)
        self.send_response(204)
        self.end_headers()


server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Endpoint)
print("listening on port", server.server_port, flush=True)
server.serve_forever()
