"""One click signs in as somebody of the sample; and the bar that offers it can be put away."""

import re
from typing import Annotated

from attrs import frozen
from litestar import post
from litestar.response import Redirect

from staffbooking_core.bounds import MAX_ID, IntegerBounds
from staffbooking_core.domain.accounts.users import Actor, hash_session_token
from staffbooking_core.errors import NotFound
from staffbooking_core.usecases import sandbox
from staffbooking_core.usecases.accounts import sessions
from staffbooking_core.usecases.bookings import actions
from staffbooking_http.api import query_string, request_body
from staffbooking_http.api.access import SignedOutAccess, session_cookie_header
from staffbooking_http.api.endpoint import Call
from staffbooking_http.pages.session import PageRequest, find_visitor, get_call, return_path
from staffbooking_http.pages.testers.bar import BAR_COOKIE, HIDDEN

_BOOKING_PATH = re.compile(r"/bookings/(\d{1,18})/")
_BAR_SECONDS = 30 * 24 * 60 * 60


@frozen(kw_only=True)
class _AccountForm:
    """The chosen account."""

    account: Annotated[int, IntegerBounds(1, MAX_ID)]


@post("/sandbox/sign-in", status_code=200)
async def sign_in(request: PageRequest) -> Redirect:
    """Sign in to an account of the sample, in place of the present one, and go to `next`; home, if
    that is a booking of others."""
    call = get_call(request)
    await SignedOutAccess().admit(call)
    chosen = query_string.parse_form(_AccountForm, await request_body.read(call))
    return await signed_in_redirect(call, chosen.account, return_path(call))


async def signed_in_redirect(call: Call, user_id: int, way: str) -> Redirect:
    """Sign in to an account of the sample, in place of the present one, and go to `way`; home, if
    that is a booking of others. Raises NotFound for every other account."""
    former = await find_visitor(call)
    user, token = await sandbox.sign_in_sample_account(call.ports, user_id)
    if former is not None:
        await sessions.logout(call.ports, hash_session_token(former.token))
    way = await _visible_way(call, Actor(user.id, user.role), way)
    onward = Redirect(way or "/", status_code=303)
    name, crumb = session_cookie_header(call.ports.policy, token)
    onward.headers[name.decode()] = crumb.decode()
    return onward


async def _visible_way(call: Call, actor: Actor, way: str) -> str:
    booking = _BOOKING_PATH.match(way)
    if booking is None:
        return way
    try:
        await actions.get_by_id(call.ports, actor, int(booking[1]))
    except NotFound:
        return ""
    return way


@frozen(kw_only=True)
class _BarForm:
    """What becomes of the bar."""

    hide: bool = False


@post("/sandbox/bar", status_code=200)
async def put_away(request: PageRequest) -> Redirect:
    """Hide the bar, or show it again, on the pages that are not for testers."""
    call = get_call(request)
    await SignedOutAccess().admit(call)
    hides = query_string.parse_form(_BarForm, await request_body.read(call)).hide
    onward = Redirect(return_path(call) or "/", status_code=303)
    onward.headers["set-cookie"] = (
        f"{BAR_COOKIE}={HIDDEN if hides else ''}; Path=/; "
        f"Max-Age={_BAR_SECONDS if hides else 0}; HttpOnly; SameSite=Lax"
    )
    return onward


PAGES = (sign_in, put_away)
