"""Account settings pages: sessions, email notifications, password change and account erasure.

They call the same use-cases as `/auth/*` and `/account/*`, at paths of their own.
"""

from typing import Any

from attrs import asdict, frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.notifications.preferences import optional_kinds_of
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import InvalidInput, NotFound, RuleBroken, Unauthenticated
from staffbooking_core.inputs import ChangePassword, EraseAccount
from staffbooking_core.representations.accounts import session_record
from staffbooking_core.usecases import privacy
from staffbooking_core.usecases.accounts import accounts
from staffbooking_core.usecases.notifications import notifications
from staffbooking_http.api import rate_limits
from staffbooking_http.api.access import session_cookie_header
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.api.security_log import log_security_event
from staffbooking_http.pages.email_links import NOTICE_DESCRIPTIONS
from staffbooking_http.pages.session import (
    DraftText,
    PageRequest,
    flash_text,
    get_call,
    read_form,
    render,
    render_error,
    require_signed_in,
)

_ACCOUNT_PATH = "/account"
_PASSWORD_PATH = "/account/password"
_ERASURE_PATH = "/account/erasure"
_TEMPLATE = "account.html"

_FLASH_TEXTS = {
    "mails": "Your choice is saved.",
    "session": "You are signed out there.",
    "sessions": "You are signed out everywhere else.",
    "password": "Your new password is set, and you are signed out everywhere else.",
}
"""Messages of the account page by flash code in the query string."""


@frozen(kw_only=True)
class _NotificationForm:
    """Checkboxes of the optional notification kinds; browsers omit unchecked ones."""

    accepted: DraftText = ""
    payout: DraftText = ""
    new_message: DraftText = ""


@frozen(kw_only=True)
class _EndSessionForm:
    """The session to end, by its id, or `others` for all except this one."""

    session: DraftText


_OTHER_SESSIONS = "others"


@get(_ACCOUNT_PATH)
async def show_account(request: PageRequest) -> Template:
    """Show the account's sessions and notification settings."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    return render(
        _TEMPLATE,
        visitor,
        done=flash_text(call, _FLASH_TEXTS),
        **await _account_context(call, visitor),
    )


@post("/account/mails", status_code=200)
async def choose_notifications(request: PageRequest) -> Redirect:
    """Turn on the email notifications of the checked kinds and turn off the others."""
    call = get_call(request)
    visitor = await require_signed_in(call, return_to=_ACCOUNT_PATH)
    ticked = asdict(await read_form(call, visitor, _NotificationForm))
    kinds = optional_kinds_of(visitor.user.role)
    wanted = {kind: bool(ticked[kind]) for kind in kinds}
    await notifications.set_preferences(call.ports, visitor.user.id, wanted)
    return _redirect_with_flash("mails")


@post("/account/sessions", status_code=200)
async def end_session(request: PageRequest) -> Template | Redirect:
    """End one session, or all except this one."""
    call = get_call(request)
    visitor = await require_signed_in(call, return_to=_ACCOUNT_PATH)
    name = (await read_form(call, visitor, _EndSessionForm)).session
    if name == _OTHER_SESSIONS:
        await accounts.end_other_sessions(call.ports, visitor.session)
        return _redirect_with_flash("sessions")
    try:
        await accounts.end_session(call.ports, visitor.user, name)
    except NotFound as error:
        return render_error(_TEMPLATE, visitor, error, **await _account_context(call, visitor))
    return _redirect_with_flash("session")


@get(_PASSWORD_PATH)
async def show_change_password(request: PageRequest) -> Template:
    """Show the password change form."""
    visitor = await require_signed_in(get_call(request))
    return render("password.html", visitor)


@post(_PASSWORD_PATH, status_code=200)
async def change_password(request: PageRequest) -> Template | Redirect:
    """Change the password and end all other sessions."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    try:
        given = await read_form(call, visitor, ChangePassword)
        address = rate_limits.address_key(call)
        await accounts.change_password(call.ports, visitor.session, given, address)
        log_security_event(call, "password_changed", user_id=visitor.user.id)
    except (InvalidInput, Unauthenticated, RateLimitExceeded) as error:
        return render_error("password.html", visitor, error)
    return _redirect_with_flash("password")


@get(_ERASURE_PATH)
async def show_erasure(request: PageRequest) -> Template:
    """Show the effects of account erasure and its form."""
    visitor = await require_signed_in(get_call(request))
    return render("erasure.html", visitor)


@post(_ERASURE_PATH, status_code=200)
async def erase_account(request: PageRequest) -> Template:
    """Erase the account after checking its password, and clear the session cookie."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    try:
        password = (await read_form(call, visitor, EraseAccount)).password
        await privacy.erase_own_account(
            call.ports, visitor.user.id, password, rate_limits.address_key(call)
        )
    except (InvalidInput, Unauthenticated, RuleBroken, RateLimitExceeded) as error:
        return render_error("erasure.html", visitor, error)
    farewell = render("erasure.html", done=True)
    name, crumb = session_cookie_header(call.ports.policy, None)
    farewell.headers[name.decode()] = crumb.decode()
    return farewell


def _redirect_with_flash(code: str) -> Redirect:
    return Redirect(f"{_ACCOUNT_PATH}?{code}", status_code=303)


async def _account_context(call: Call, visitor: SignedInUser) -> dict[str, Any]:
    """The template context of the account page."""
    sessions = await accounts.list_sessions(call.ports, visitor.user)
    choices = await notifications.get_preferences(call.ports, visitor.user.id)
    return {
        "sessions": [session_record(each, visitor.session) for each in sessions],
        "others": _OTHER_SESSIONS,
        "mails": [
            (kind, NOTICE_DESCRIPTIONS[kind], choices[kind])
            for kind in optional_kinds_of(visitor.user.role)
        ],
    }


PAGES = (
    show_account,
    choose_notifications,
    end_session,
    show_change_password,
    change_password,
    show_erasure,
    erase_account,
)
