"""Account settings pages, one for each question: sign-in, sessions, notifications, language and
look, personal data; password change and account erasure.

They call the same use-cases as `/auth/*` and `/account/*`, at paths of their own.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from attrs import asdict, frozen
from litestar import get, post
from litestar.datastructures import Cookie
from litestar.response import Redirect, Template

from staffbooking_core.domain.accounts.users import (
    Language,
    Session,
    Theme,
    User,
    session_public_id,
)
from staffbooking_core.domain.companions.availability import known_timezones
from staffbooking_core.domain.notifications.notifications import NotificationKind
from staffbooking_core.domain.notifications.preferences import optional_kinds_of
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import InvalidInput, NotFound, RuleBroken, Unauthenticated
from staffbooking_core.inputs import ChangePassword, ChooseSettings, EraseAccount, TimezoneName
from staffbooking_core.usecases import privacy
from staffbooking_core.usecases.accounts import accounts, settings
from staffbooking_core.usecases.notifications import notifications
from staffbooking_http.api import addresses, mounting, query_string
from staffbooking_http.api.access import session_cookie_header
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.api.security_log import log_security_event
from staffbooking_http.pages.locales import LANGUAGES
from staffbooking_http.pages.preferences import PREFERENCE_COOKIE_SECONDS
from staffbooking_http.pages.rendering import LANGUAGE_COOKIE, THEME_COOKIE
from staffbooking_http.pages.session import (
    DraftText,
    PageRequest,
    flash_text,
    get_call,
    parse_counted_form,
    read_form,
    read_verified_form,
    render,
    render_error,
    require_signed_in,
)

_ACCOUNT_PATH = "/account"
_SESSIONS_PATH = "/account/sessions"
_MAILS_PATH = "/account/mails"
_PREFERENCES_PATH = "/account/preferences"
_PASSWORD_PATH = "/account/password"
_ERASURE_PATH = "/account/erasure"
_SESSIONS_TEMPLATE = "account/sessions.html"
_PREFERENCES_TEMPLATE = "account/preferences.html"

_FLASH_TEXTS = {
    "saved": "Your choice is saved.",
    "session": "You are signed out there.",
    "sessions": "You are signed out everywhere else.",
    "password": "Your new password is set, and you are signed out everywhere else.",
}
"""Messages of the pages by flash code in the query string."""

_KIND_LABELS = {
    NotificationKind.ACCEPTED: "Accepted requests",
    NotificationKind.PAYOUT: "Payouts",
    NotificationKind.NEW_MESSAGE: "New messages",
}
_KIND_DESCRIPTIONS = {
    NotificationKind.ACCEPTED: "Somebody you asked says yes, so that you can pay.",
    NotificationKind.PAYOUT: "Money is on its way to your bank account.",
    NotificationKind.NEW_MESSAGE: "Somebody writes to you while you are not here.",
}


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


@frozen(kw_only=True)
class _PreferencesForm:
    """The chosen settings; browsers' empty fields are left out and stand for none."""

    language: Language | None = None
    theme: Theme | None = None
    timezone: TimezoneName | None = None


@frozen(kw_only=True)
class _PreferencesDraft:
    """The submitted settings before validation, to refill the form."""

    language: DraftText = ""
    theme: DraftText = ""
    timezone: DraftText = ""


_OTHER_SESSIONS = "others"


@get(_ACCOUNT_PATH)
async def show_account(request: PageRequest) -> Template:
    """Show who is signed in, and how."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    return render("account/sign_in.html", visitor, done=flash_text(call, _FLASH_TEXTS))


@get(_MAILS_PATH)
async def show_notifications(request: PageRequest) -> Template:
    """Show the optional notification kinds that reach the user's role."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    choices = await notifications.get_preferences(call.ports, visitor.user.id)
    mails = [
        (kind, _KIND_LABELS[kind], _KIND_DESCRIPTIONS[kind], choices[kind])
        for kind in optional_kinds_of(visitor.user.role)
    ]
    done = flash_text(call, _FLASH_TEXTS)
    return render("account/notifications.html", visitor, mails=mails, done=done)


@post(_MAILS_PATH, status_code=200)
async def choose_notifications(request: PageRequest) -> Redirect:
    """Turn on the email notifications of the checked kinds and turn off the others that reach the
    user's role."""
    call = get_call(request)
    visitor = await require_signed_in(call, return_to=_MAILS_PATH)
    ticked = asdict(await read_form(call, visitor, _NotificationForm))
    kinds = optional_kinds_of(visitor.user.role)
    wanted = {kind: bool(ticked[kind]) for kind in kinds}
    await notifications.set_preferences(call.ports, visitor.user.id, wanted)
    return _redirect_with_flash(_MAILS_PATH, "saved")


@get(_SESSIONS_PATH)
async def show_sessions(request: PageRequest) -> Template:
    """Show where the user is signed in."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    context = await _sessions_context(call, visitor)
    return render(_SESSIONS_TEMPLATE, visitor, done=flash_text(call, _FLASH_TEXTS), **context)


@post(_SESSIONS_PATH, status_code=200)
async def end_session(request: PageRequest) -> Template | Redirect:
    """End one session, or all except this one."""
    call = get_call(request)
    visitor = await require_signed_in(call, return_to=_SESSIONS_PATH)
    name = (await read_form(call, visitor, _EndSessionForm)).session
    if name == _OTHER_SESSIONS:
        await accounts.end_other_sessions(call.ports, visitor.session)
        return _redirect_with_flash(_SESSIONS_PATH, "sessions")
    try:
        await accounts.end_session(call.ports, visitor.user, name)
    except NotFound as error:
        context = await _sessions_context(call, visitor)
        return render_error(_SESSIONS_TEMPLATE, visitor, error, **context)
    return _redirect_with_flash(_SESSIONS_PATH, "session")


@get(_PREFERENCES_PATH)
async def show_preferences(request: PageRequest) -> Template:
    """Show the language, the theme and the time zone of the user's pages."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    context = _preferences_context(_settings_draft(visitor.user))
    return render(_PREFERENCES_TEMPLATE, visitor, done=flash_text(call, _FLASH_TEXTS), **context)


@post(_PREFERENCES_PATH, status_code=200)
async def choose_preferences(request: PageRequest) -> Template | Redirect:
    """Store the language, the theme and the time zone."""
    call = get_call(request)
    visitor = await require_signed_in(call)
    form = await read_verified_form(call, visitor)
    try:
        given = await parse_counted_form(call, visitor, _PreferencesForm, form)
        choice = ChooseSettings(language=given.language, theme=given.theme, timezone=given.timezone)
        await settings.choose_settings(call.ports, visitor.user.id, choice)
    except (InvalidInput, RateLimitExceeded) as error:
        draft = query_string.parse_form(_PreferencesDraft, form)
        context = _preferences_context(asdict(draft))
        return render_error(_PREFERENCES_TEMPLATE, visitor, error, **context)
    onward = _redirect_with_flash(_PREFERENCES_PATH, "saved")
    cookies = {LANGUAGE_COOKIE: given.language, THEME_COOKIE: given.theme}
    onward.cookies.extend(
        Cookie(
            name,
            path=mounting.base_path(call.ports.policy) or "/",
            value=value or "",
            max_age=PREFERENCE_COOKIE_SECONDS if value else 0,
            samesite="lax",
        )
        for name, value in cookies.items()
    )
    return onward


@get("/account/data")
async def show_data(request: PageRequest) -> Template:
    """Show how to take the own data along, and how to erase the account."""
    return render("account/data.html", await require_signed_in(get_call(request)))


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
        address = addresses.client_address_key(call)
        await accounts.change_password(call.ports, visitor.session, given, address)
        log_security_event(call, "password_changed", user_id=visitor.user.id)
    except (InvalidInput, Unauthenticated, RateLimitExceeded) as error:
        return render_error("password.html", visitor, error)
    return _redirect_with_flash(_ACCOUNT_PATH, "password")


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
            call.ports, visitor.user.id, password, addresses.client_address_key(call)
        )
    except (InvalidInput, Unauthenticated, RuleBroken, RateLimitExceeded) as error:
        return render_error("erasure.html", visitor, error)
    farewell = render("erasure.html", done=True)
    name, crumb = session_cookie_header(call.ports.policy, None)
    farewell.headers[name.decode()] = crumb.decode()
    return farewell


def _redirect_with_flash(path: str, code: str) -> Redirect:
    return Redirect(f"{path}?{code}", status_code=303)


async def _sessions_context(call: Call, visitor: SignedInUser) -> dict[str, Any]:
    found = await accounts.list_sessions(call.ports, visitor.user)
    current = visitor.session.digest
    return {
        "sessions": [
            (session_public_id(each.digest), each)
            for each in sorted(found, key=lambda each: (each.digest != current, -_age(each)))
        ],
        "current": current,
        "others": _OTHER_SESSIONS,
    }


@cache
def _zones() -> Sequence[tuple[str, str]]:
    """The time zones as choices, named for people."""
    return [(name, name.replace("_", " ")) for name in sorted(known_timezones())]


def _age(session: Session) -> float:
    return session.seen_at.timestamp()


def _settings_draft(user: User) -> dict[str, Any]:
    return {"language": user.language, "theme": user.theme, "timezone": user.timezone}


def _preferences_context(draft: dict[str, Any]) -> dict[str, Any]:
    return {"draft": draft, "language_choices": LANGUAGES.items(), "timezones": _zones()}


PAGES = (
    show_account,
    show_notifications,
    choose_notifications,
    show_sessions,
    end_session,
    show_preferences,
    choose_preferences,
    show_data,
    show_change_password,
    change_password,
    show_erasure,
    erase_account,
)
