"""Sign-up, sign-in and sign-out (CONTRACT 2)."""

import logging

from staffbooking_adapters import codec
from staffbooking_core.domain.accounts.users import User, csrf_token
from staffbooking_core.inputs import Login, Register
from staffbooking_core.representations.accounts import UserRecord, user_record
from staffbooking_core.representations.json_types import Success
from staffbooking_core.usecases.accounts import sessions
from staffbooking_http.api import addresses
from staffbooking_http.api.access import SessionAccess, SignedOutAccess, session_cookie_header
from staffbooking_http.api.endpoint import Call, Reply, endpoint
from staffbooking_http.api.response_schemas import (
    reply_schema,
)
from staffbooking_http.api.security_log import watch_sign_in

log = logging.getLogger("staffbooking.http")


@endpoint(
    "POST",
    "/auth/register",
    SignedOutAccess(),
    operation_id="register",
    summary="Sign up",
    description="Creates an account without signing in. A link to confirm the e-mail is sent, but "
    "only for the first {register_address_limit} accounts in {register_address_window} from a "
    "network address: the others can request it at `/auth/verification`.",
    body=Register,
    status=201,
    response_schema=reply_schema("UserReply", success=Success, user=UserRecord),
)
async def register(call: Call) -> Reply:
    user = await sign_up(call, call.parsed_input)
    return Reply(201, codec.encode({"success": True, "user": user_record(user)}))


async def sign_up(call: Call, given: Register) -> User:
    """Create an account, for the API or a page. Raises InvalidField."""
    may_ask = await sessions.may_send_verification(call.ports, addresses.client_address_key(call))
    user = await sessions.register_user(call.ports, given, asks_verification=may_ask)
    if not may_ask:
        log.warning("user %d gets no mail yet: many registered from their network address", user.id)
    return user


@endpoint(
    "POST",
    "/auth/login",
    SignedOutAccess(),
    operation_id="login",
    summary="Sign in",
    description="Sets the cookie `connect.sid`. After too many failures the answer is 429.",
    body=Login,
    response_schema=reply_schema("NewSession", success=Success, user=UserRecord, csrf_token=str),
    rule_codes=("bad_credentials",),
)
async def login(call: Call) -> Reply:
    with watch_sign_in(call, call.parsed_input.email):
        user, token = await sessions.login(
            call.ports,
            call.parsed_input,
            addresses.client_address_key(call),
            addresses.sign_in_origin(call),
        )
    answer = {"success": True, "user": user_record(user), "csrf_token": csrf_token(token)}
    return Reply(200, codec.encode(answer), (session_cookie_header(call.ports.policy, token),))


@endpoint(
    "POST",
    "/auth/logout",
    SessionAccess(),
    operation_id="logout",
    summary="Sign out",
    response_schema=reply_schema("Success", success=Success),
)
async def logout(call: Call) -> Reply:
    await sessions.logout(call.ports, call.signed_in.session.digest)
    return Reply(
        200, codec.encode({"success": True}), (session_cookie_header(call.ports.policy, None),)
    )


@endpoint(
    "GET",
    "/auth/session",
    SessionAccess(),
    operation_id="getSession",
    summary="Read the current session",
    response_schema=reply_schema("CurrentSession", user=UserRecord, csrf_token=str),
)
async def read_session(call: Call) -> Reply:
    answer = {"user": user_record(call.user), "csrf_token": call.signed_in.csrf}
    return Reply(200, codec.encode(answer))
