"""Pages by which one comes to an account and back into it: registering, signing in and out, the
forgotten password, another link by which an address is confirmed. They do what `/auth/*` does,
by the same doors and windows."""

from urllib.parse import quote

from attrs import asdict, frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.accounts.users import session_digest
from staffbooking_core.domain.shared.rate_limits import LimitExceeded
from staffbooking_core.errors import InvalidInput, RuleBroken, Unauthenticated
from staffbooking_core.inputs import ForgotPassword, Login, Register
from staffbooking_core.usecases.accounts import accounts, sessions
from staffbooking_http.api import query_string, rate_limits, request_body
from staffbooking_http.api.access import SignedOut, session_cookie
from staffbooking_http.pages.session import (
    SIGN_IN,
    Asked,
    Proof,
    Written,
    call_of,
    read_form,
    refused,
    said,
    shown,
    signed_in,
    visitor_of,
    wanted,
)
from staffbooking_http.routes.auth import sign_up

_LINK = "/account/verify-email"
_REGISTER = "/account/register"


@frozen(kw_only=True)
class _Newcomer:
    """What somebody filled in who registers, but for the password."""

    first_name: Written = ""
    last_name: Written = ""
    email: Written = ""
    role: Written = ""


@get(_REGISTER)
async def registering(request: Asked) -> Template | Redirect:
    """Where one makes an account; who is signed in goes on."""
    call = call_of(request)
    way = wanted(call)
    if await visitor_of(call) is None:
        return shown("register.html", draft=asdict(_Newcomer()), way=way)
    return _onward(way)


@post(_REGISTER, status_code=200)
async def register(request: Asked) -> Template | Redirect:
    """Make the account, and go on to sign in; what can't be taken stays in the form."""
    call = call_of(request)
    way, raw = wanted(call), await request_body.read(call)
    draft = query_string.read_form(_Newcomer, raw)
    try:
        await SignedOut().admit(call)
        await sign_up(call, query_string.read_form(Register, raw))
    except (InvalidInput, LimitExceeded) as error:
        return refused("register.html", None, error, draft=asdict(draft), way=way)
    onward = f"&next={quote(way, safe='')}" if way else ""
    return Redirect(f"{SIGN_IN}?{_REGISTERED}{onward}", status_code=303)


_REGISTERED = "registered"


@get(SIGN_IN)
async def signing_in(request: Asked) -> Template | Redirect:
    """Where one signs in; who is signed in goes on."""
    call = call_of(request)
    way = wanted(call)
    if await visitor_of(call) is None:
        return shown("sign_in.html", way=way, is_new=said(call, _REGISTERED.encode()))
    return _onward(way)


@post(SIGN_IN, status_code=200)
async def sign_in(request: Asked) -> Template | Redirect:
    """Sign in, and go on."""
    call = call_of(request)
    way = wanted(call)
    await SignedOut().admit(call)
    given = query_string.read_form(Login, await request_body.read(call))
    try:
        _, token = await sessions.login(call.ports, given, rate_limits.address(call))
    except (Unauthenticated, LimitExceeded) as error:
        return refused("sign_in.html", None, error, email=given.email, way=way)
    onward = _onward(way)
    name, crumb = session_cookie(call.ports.policy, token)
    onward.headers[name.decode()] = crumb.decode()
    return onward


def _onward(way: str) -> Redirect:
    return Redirect(way or "/", status_code=303)


@post("/account/sign-out", status_code=200)
async def sign_out(request: Asked) -> Redirect:
    """Sign out here; nothing happens where nobody is signed in any more."""
    call = call_of(request)
    home = Redirect("/", status_code=303)
    if (visitor := await visitor_of(call)) is not None:
        await read_form(call, visitor, Proof)
        await sessions.logout(call.ports, session_digest(visitor.token))
        name, crumb = session_cookie(call.ports.policy, None)
        home.headers[name.decode()] = crumb.decode()
    return home


@get("/account/forgot-password")
async def forgetting(request: Asked) -> Template:
    """Where one has a link sent by which a password can be set."""
    call = call_of(request)
    return shown("forgot.html", await visitor_of(call), way=wanted(call))


@post("/account/forgot-password", status_code=200)
async def forgot(request: Asked) -> Template:
    """Send the link, if there is such an account: the page does not tell."""
    call = call_of(request)
    way = wanted(call)
    await SignedOut().admit(call)
    raw = await request_body.read(call)
    try:
        given = query_string.read_form(ForgotPassword, raw)
        await accounts.forgot_password(call.ports, given, rate_limits.address(call), way or None)
    except (InvalidInput, LimitExceeded) as error:
        return refused("forgot.html", None, error, way=way)
    return shown("forgot.html", done=True, way=way)


@get(_LINK)
async def asking_for_link(request: Asked) -> Template:
    """Where one has the link sent again by which one's address is confirmed."""
    visitor = await signed_in(call_of(request))
    return shown("link.html", visitor)


@post(_LINK, status_code=200)
async def send_link(request: Asked) -> Template:
    """Send it."""
    call = call_of(request)
    visitor = await signed_in(call)
    await read_form(call, visitor, Proof)
    try:
        await accounts.send_verification(call.ports, visitor.user, rate_limits.address(call))
    except (RuleBroken, LimitExceeded) as error:
        return refused("link.html", visitor, error)
    return shown("link.html", visitor, done=True)


PAGES = (
    registering,
    register,
    signing_in,
    sign_in,
    sign_out,
    forgetting,
    forgot,
    asking_for_link,
    send_link,
)
