"""An HTTP server on loopback, for what the service calls in a journey."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def run_http_server(
    respond: Callable[[Mapping[str, str], bytes], tuple[int, bytes]],
) -> Iterator[str]:
    """Serves in threads; yields the server's URL without a path. `respond` gets the headers and the
    body of each GET and POST, and returns the status and the body of the response."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            status, content = respond(dict(self.headers.items()), body)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815 - the name is of the base class

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
