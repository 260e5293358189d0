"""Account access pages: registration, sign-in and sign-out, forgotten password, verification email.

They call the same use-cases as `/auth/*`, under the same access rules and rate limits.
"""

from typing import Any, TypeVar
from urllib.parse import parse_qsl

from attrs import asdict, frozen
from litestar import Response, get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.accounts.users import User, csrf_token, hash_session_token
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import InvalidInput, RuleBroken, Unauthenticated
from staffbooking_core.inputs import ForgotPassword, Login, Register
from staffbooking_core.usecases.accounts import accounts, sessions
from staffbooking_http.api import addresses, query_string, request_body
from staffbooking_http.api.access import SignedOutAccess, session_cookie_header
from staffbooking_http.api.endpoint import Call
from staffbooking_http.api.security_log import watch_sign_in
from staffbooking_http.pages.session import (
    SIGN_IN_PATH,
    CsrfForm,
    DraftText,
    PageRequest,
    drop_empty_fields,
    find_visitor,
    get_call,
    read_form,
    render,
    render_error,
    require_signed_in,
    return_path,
)
from staffbooking_http.routes.auth import sign_up

_VERIFY_EMAIL_PATH = "/account/verify-email"
_REGISTER_PATH = "/account/register"

REGISTERED_CODE = "registered"
"""The flash code of the home page for a new account."""


@frozen(kw_only=True)
class _RegisterDraft:
    """The submitted registration fields, without the password, to refill the form."""

    first_name: DraftText = ""
    last_name: DraftText = ""
    email: DraftText = ""
    role: DraftText = ""


@get(_REGISTER_PATH)
async def show_register(request: PageRequest) -> Template | Redirect:
    """Show the registration form; redirect a signed-in visitor to the return path."""
    call = get_call(request)
    way = return_path(call)
    if await find_visitor(call) is None:
        return render("register.html", draft=asdict(_RegisterDraft()), way=way)
    return _redirect_to(way)


@post(_REGISTER_PATH, status_code=200)
async def submit_register(request: PageRequest) -> Template | Redirect:
    """Register the account, sign in and redirect to the return path; on an error, show the form
    refilled."""
    call = get_call(request)
    way, raw = return_path(call), drop_empty_fields(await request_body.read(call))
    draft = query_string.parse_form(_RegisterDraft, raw)
    try:
        await SignedOutAccess().admit(call)
        await sign_up(call, query_string.parse_form(Register, raw))
        _, token = await _sign_in(call, query_string.parse_form(Login, raw))
    except (InvalidInput, RateLimitExceeded) as error:
        return render_error("register.html", None, error, draft=asdict(draft), way=way)
    return _with_session(call, _redirect_to(way or f"/?{REGISTERED_CODE}"), token)


@frozen(kw_only=True)
class _SignInDraft:
    """The submitted address, to refill the form after an error."""

    email: DraftText = ""
    resumed: DraftText = ""
    """The form that was sent after its session had ended, as it was sent; empty without one."""


_MAX_SIGN_IN_BYTES = 3 * request_body.MAX_BODY_BYTES
"""A resumed form is a form already, so that each of its bytes may be sent as three."""


@get(SIGN_IN_PATH)
async def show_sign_in(request: PageRequest) -> Template | Redirect:
    """Show the sign-in form; redirect a signed-in visitor to the return path."""
    call = get_call(request)
    way = return_path(call)
    if await find_visitor(call) is None:
        return render("sign_in.html", way=way)
    return _redirect_to(way)


@post(SIGN_IN_PATH, status_code=200)
async def submit_sign_in(request: PageRequest) -> Template | Redirect:
    """Sign in, set the session cookie and redirect to the return path."""
    call = get_call(request)
    way = return_path(call)
    await SignedOutAccess().admit(call)
    raw = drop_empty_fields(await request_body.read(call, _MAX_SIGN_IN_BYTES))
    draft = query_string.parse_form(_SignInDraft, raw)
    try:
        # An empty field is a fault of the form: it counts as no failure of the account.
        user, token = await _sign_in(call, query_string.parse_form(Login, raw))
    except (InvalidInput, Unauthenticated, RateLimitExceeded) as error:
        template = "ended.html" if draft.resumed else "sign_in.html"
        return render_error(template, None, error, way=way, is_refused=True, **asdict(draft))
    onward: Template | Redirect = _redirect_to(way)
    if draft.resumed and way:
        fields = parse_qsl(draft.resumed)
        csrf = csrf_token(token)
        onward = render("resumed.html", user=user, csrf=csrf, way=way, fields=fields)
    return _with_session(call, onward, token)


async def _sign_in(call: Call, given: Login) -> tuple[User, str]:
    """Start a session; returns its user and token. Raises Unauthenticated and RateLimitExceeded."""
    with watch_sign_in(call, given.email):
        address, origin = addresses.client_address_key(call), addresses.sign_in_origin(call)
        return await sessions.login(call.ports, given, address, origin)


_Answer = TypeVar("_Answer", bound=Response[Any])


def _with_session(call: Call, answer: _Answer, token: str | None) -> _Answer:
    """The answer with the cookie of the session; without a token, the cookie is cleared."""
    name, crumb = session_cookie_header(call.ports.policy, token)
    answer.headers[name.decode()] = crumb.decode()
    return answer


def _redirect_to(way: str) -> Redirect:
    return Redirect(way or "/", status_code=303)


@post("/account/sign-out", status_code=200)
async def submit_sign_out(request: PageRequest) -> Redirect:
    """End this session and clear its cookie; without a session, only redirect to `/`."""
    call = get_call(request)
    home = Redirect("/", status_code=303)
    if (visitor := await find_visitor(call)) is not None:
        await read_form(call, visitor, CsrfForm)
        await sessions.logout(call.ports, hash_session_token(visitor.token))
        _with_session(call, home, None)
    return home


@get("/account/forgot-password")
async def show_forgot_password(request: PageRequest) -> Template:
    """Show the form that requests a password reset link."""
    call = get_call(request)
    return render("forgot.html", await find_visitor(call), way=return_path(call))


@post("/account/forgot-password", status_code=200)
async def submit_forgot_password(request: PageRequest) -> Template:
    """Send the reset link if the account exists; the page does not reveal whether it does."""
    call = get_call(request)
    way = return_path(call)
    await SignedOutAccess().admit(call)
    raw = drop_empty_fields(await request_body.read(call))
    try:
        given = query_string.parse_form(ForgotPassword, raw)
        await accounts.forgot_password(
            call.ports, given, addresses.client_address_key(call), way or None
        )
    except (InvalidInput, RateLimitExceeded) as error:
        return render_error("forgot.html", None, error, way=way)
    lifetime = call.ports.policy.reset_lifetime
    return render("forgot.html", done=True, way=way, lifetime=lifetime)


@get(_VERIFY_EMAIL_PATH)
async def show_verification(request: PageRequest) -> Template:
    """Show the form that requests another email verification link."""
    visitor = await require_signed_in(get_call(request))
    return render("link.html", visitor)


@post(_VERIFY_EMAIL_PATH, status_code=200)
async def send_verification(request: PageRequest) -> Template:
    """Send another email verification link."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    await read_form(call, visitor, CsrfForm)
    try:
        await accounts.send_verification(
            call.ports, visitor.user, addresses.client_address_key(call)
        )
    except (RuleBroken, RateLimitExceeded) as error:
        return render_error("link.html", visitor, error)
    return render("link.html", visitor, done=True)


PAGES = (
    show_register,
    submit_register,
    show_sign_in,
    submit_sign_in,
    submit_sign_out,
    show_forgot_password,
    submit_forgot_password,
    show_verification,
    send_verification,
)
