"""Pages of one's own account: where one is signed in, which mails one gets, another password,
one's data. They do what `/auth/*` and `/account/*` do, and have paths of their own."""

from typing import Any

from attrs import asdict, frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.notifications.notifications import NoticeKind
from staffbooking_core.domain.shared.rate_limits import LimitExceeded
from staffbooking_core.errors import InvalidInput, NotFound, RuleBroken, Unauthenticated
from staffbooking_core.inputs import ChangePassword, EraseAccount
from staffbooking_core.representations.records import session_record
from staffbooking_core.usecases import privacy
from staffbooking_core.usecases.accounts import accounts
from staffbooking_core.usecases.notifications import notifications
from staffbooking_http.api import rate_limits
from staffbooking_http.api.access import session_cookie
from staffbooking_http.api.endpoint import Call
from staffbooking_http.pages.email_links import WORDS
from staffbooking_http.pages.session import (
    Asked,
    Visitor,
    Written,
    call_of,
    read_form,
    refused,
    shown,
    signed_in,
    told,
)

_PATH = "/account"
_PASSWORD = "/account/password"
_ERASURE = "/account/erasure"
_PAGE = "account.html"

_DONE = {
    "mails": "Your choice is saved.",
    "session": "You are signed out there.",
    "sessions": "You are signed out everywhere else.",
    "password": "Your new password is set, and you are signed out everywhere else.",
}
"""What happened, by the word that the page's address ends in."""


@frozen(kw_only=True)
class _Ticked:
    """The boxes of the kinds of mails that can be refused; an empty one is not sent."""

    accepted: Written = ""
    payout: Written = ""
    new_message: Written = ""


@frozen(kw_only=True)
class _Elsewhere:
    """Where one wants to be signed out: in a session by its name, or in all but this one."""

    session: Written


_OTHERS = "others"


@get(_PATH)
async def account(request: Asked) -> Template:
    """One's account as it stands."""
    call = call_of(request)
    visitor = await signed_in(call)
    return shown(_PAGE, visitor, done=told(call, _DONE), **await _seen(call, visitor))


@post("/account/mails", status_code=200)
async def choose_mails(request: Asked) -> Redirect:
    """Be told by mail of the kinds that are ticked, and no more of the others."""
    call = call_of(request)
    visitor = await signed_in(call, back=_PATH)
    ticked = asdict(await read_form(call, visitor, _Ticked))
    wanted = {NoticeKind(kind): bool(mark) for kind, mark in ticked.items()}
    await notifications.choose(call.ports, visitor.user.id, wanted)
    return _back("mails")


@post("/account/sessions", status_code=200)
async def end(request: Asked) -> Template | Redirect:
    """Sign out somewhere else, or everywhere else."""
    call = call_of(request)
    visitor = await signed_in(call, back=_PATH)
    name = (await read_form(call, visitor, _Elsewhere)).session
    if name == _OTHERS:
        await accounts.end_other_sessions(call.ports, visitor.session)
        return _back("sessions")
    try:
        await accounts.end_session(call.ports, visitor.user, name)
    except NotFound as error:
        return refused(_PAGE, visitor, error, **await _seen(call, visitor))
    return _back("session")


@get(_PASSWORD)
async def changing(request: Asked) -> Template:
    """Where one sets another password."""
    visitor = await signed_in(call_of(request))
    return shown("password.html", visitor)


@post(_PASSWORD, status_code=200)
async def change(request: Asked) -> Template | Redirect:
    """Set it."""
    call = call_of(request)
    visitor = await signed_in(call)
    try:
        given = await read_form(call, visitor, ChangePassword)
        address = rate_limits.address(call)
        await accounts.change_password(call.ports, visitor.session, given, address)
    except (InvalidInput, Unauthenticated, LimitExceeded) as error:
        return refused("password.html", visitor, error)
    return _back("password")


@get(_ERASURE)
async def leaving(request: Asked) -> Template:
    """Where one reads what it means to be forgotten."""
    visitor = await signed_in(call_of(request))
    return shown("erasure.html", visitor)


@post(_ERASURE, status_code=200)
async def leave(request: Asked) -> Template:
    """Be forgotten, by one's password."""
    call = call_of(request)
    visitor = await signed_in(call)
    try:
        password = (await read_form(call, visitor, EraseAccount)).password
        await privacy.erase_myself(call.ports, visitor.user.id, password, rate_limits.address(call))
    except (InvalidInput, Unauthenticated, RuleBroken, LimitExceeded) as error:
        return refused("erasure.html", visitor, error)
    farewell = shown("erasure.html", done=True)
    name, crumb = session_cookie(call.ports.policy, None)
    farewell.headers[name.decode()] = crumb.decode()
    return farewell


def _back(word: str) -> Redirect:
    return Redirect(f"{_PATH}?{word}", status_code=303)


async def _seen(call: Call, visitor: Visitor) -> dict[str, Any]:
    """What the page shows of an account."""
    sessions = await accounts.sessions(call.ports, visitor.user)
    choices = await notifications.choices(call.ports, visitor.user.id)
    return {
        "sessions": [session_record(each, visitor.session) for each in sessions],
        "others": _OTHERS,
        "mails": [(kind, WORDS[kind], wanted) for kind, wanted in choices.items()],
    }


PAGES = (account, choose_mails, end, changing, change, leaving, leave)
