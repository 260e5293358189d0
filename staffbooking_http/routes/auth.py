"""Signing up, in and out (CONTRACT 2)."""

from datetime import timedelta

from staffbooking_adapters import codec
from staffbooking_core.domain.accounts import csrf_token
from staffbooking_core.domain.records import user_record
from staffbooking_core.inputs import Login, Register
from staffbooking_core.usecases import sessions
from staffbooking_http import limits
from staffbooking_http.access import COOKIE, SignedOut, WithSession
from staffbooking_http.endpoint import Call, Header, Reply, endpoint
from staffbooking_http.shapes import SUCCESS, TEXT, ref, shape

_SECOND = timedelta(seconds=1)
_SIGNED_IN = {"user": ref("User"), "csrf_token": TEXT}


@endpoint(
    "POST",
    "/auth/register",
    SignedOut(),
    summary="Sign up",
    description="Makes an account; it does not sign in.",
    body=Register,
    status=201,
    answer=shape({"success": SUCCESS, "user": ref("User")}),
)
async def register(call: Call) -> Reply:
    user = await sessions.register(call.ports, call.given, limits.address(call))
    return Reply(201, codec.encode({"success": True, "user": user_record(user)}))


@endpoint(
    "POST",
    "/auth/login",
    SignedOut(),
    summary="Sign in",
    description="Sets the cookie `connect.sid`. After too many failures the answer is 429.",
    body=Login,
    answer=shape({"success": SUCCESS, **_SIGNED_IN}),
    codes=("bad_credentials",),
)
async def login(call: Call) -> Reply:
    user, token = await sessions.login(call.ports, call.given, limits.address(call))
    answer = {"success": True, "user": user_record(user), "csrf_token": csrf_token(token)}
    lifetime = call.ports.policy.session_lifetime // _SECOND
    return Reply(200, codec.encode(answer), (_cookie(call, token, lifetime),))


@endpoint(
    "POST",
    "/auth/logout",
    WithSession(),
    summary="Sign out",
    answer=shape({"success": SUCCESS}),
)
async def logout(call: Call) -> Reply:
    await sessions.logout(call.ports, call.session.digest)
    return Reply(200, codec.encode({"success": True}), (_cookie(call, "", 0),))


@endpoint(
    "GET",
    "/auth/session",
    WithSession(),
    summary="Who is signed in",
    answer=shape(_SIGNED_IN),
)
async def session(call: Call) -> Reply:
    answer = {"user": user_record(call.user), "csrf_token": csrf_token(call.token)}
    return Reply(200, codec.encode(answer))


def _cookie(call: Call, token: str, seconds: int) -> Header:
    secure = "; Secure" if call.ports.policy.base_url.startswith("https:") else ""
    crumb = f"{COOKIE}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"
    return b"set-cookie", crumb.encode("ascii")
