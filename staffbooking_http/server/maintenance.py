"""The responses of a server while the database or its schema is not available (CONTRACT 9)."""

from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.policy import Policy
from staffbooking_http.api.endpoint import Receive, Reply, Scope, Send
from staffbooking_http.api.errors import to_reply
from staffbooking_http.api.mounting import base_path, strip_mount_path
from staffbooking_http.api.pipeline import send_reply
from staffbooking_http.api.security_headers import API_CONTENT_SECURITY_POLICY, security_headers
from staffbooking_http.channel.handshake import send_handshake_reply
from staffbooking_http.routes.operations import OK_BODY


class MaintenanceApp:
    """An application that is alive but not ready: it responds 503 to all but `/healthz`."""

    def __init__(self, policy: Policy) -> None:
        self._base_path = base_path(policy)
        self._headers = security_headers(policy, API_CONTENT_SECURITY_POLICY)
        refusal = to_reply(StoreUnavailable("not ready"))
        assert refusal is not None
        self._unavailable_reply = refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send_handshake_reply(scope, send, self._unavailable_reply, self._headers)
            return
        method, path = scope["method"], strip_mount_path(scope, self._base_path)["path"]
        is_alive = path == "/healthz" and method in ("GET", "HEAD")
        reply = Reply(200, OK_BODY) if is_alive else self._unavailable_reply
        await send_reply(send, reply, self._headers, omits_body=method == "HEAD")
