"""What a server answers while the database or its schema is not there (CONTRACT 9)."""

from staffbooking_core.errors import Unavailable
from staffbooking_core.policy import Policy
from staffbooking_http.api.endpoint import Receive, Reply, Scope, Send
from staffbooking_http.api.errors import to_reply
from staffbooking_http.api.pipeline import respond
from staffbooking_http.app import API_POLICY, security_headers
from staffbooking_http.channel.handshake import answer
from staffbooking_http.routes.operations import FINE


class Waiting:
    """An application that is alive, and ready for nothing."""

    def __init__(self, policy: Policy) -> None:
        self._headers = security_headers(policy, API_POLICY)
        refusal = to_reply(Unavailable("not ready"))
        assert refusal is not None
        self._refusal = refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await answer(scope, send, self._refusal, self._headers)
            return
        method = scope["method"]
        is_alive = scope["path"] == "/healthz" and method in ("GET", "HEAD")
        reply = Reply(200, FINE) if is_alive else self._refusal
        await respond(send, reply, self._headers, bodiless=method == "HEAD")
