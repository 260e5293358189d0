"""The visitor's preferences for the pages, from any page: theme and language. They are kept in
cookies, and on the account of who is signed in."""

from attrs import frozen
from litestar import post
from litestar.response import Redirect

from staffbooking_core.domain.accounts.users import Language, Theme
from staffbooking_core.inputs import ChooseSettings
from staffbooking_core.usecases.accounts import settings
from staffbooking_http.api import mounting, query_string, request_body
from staffbooking_http.api.access import SignedOutAccess
from staffbooking_http.api.endpoint import Call
from staffbooking_http.pages.rendering import LANGUAGE_COOKIE, THEME_COOKIE
from staffbooking_http.pages.session import (
    DraftText,
    PageRequest,
    find_visitor,
    get_call,
    return_path,
)

PREFERENCE_COOKIE_SECONDS = 365 * 24 * 60 * 60


@frozen(kw_only=True)
class _ThemeForm:
    """The chosen theme: `light`, `dark`, or another word for the system's."""

    theme: DraftText = ""


@frozen(kw_only=True)
class _LanguageForm:
    """The tag of the chosen language; another word for what the browser asks for."""

    language: DraftText = ""


@post("/preferences/theme", status_code=200)
async def choose_theme(request: PageRequest) -> Redirect:
    """Keep the theme, and redirect to the page in `next`."""
    call = get_call(request)
    given = query_string.parse_form(_ThemeForm, await _read_choice(call)).theme
    theme = Theme(given) if given in set(Theme) else None
    await _store(call, ChooseSettings(theme=theme))
    return _redirect_with_cookie(call, THEME_COOKIE, theme)


@post("/preferences/language", status_code=200)
async def choose_language(request: PageRequest) -> Redirect:
    """Keep the language, and redirect to the page in `next`."""
    call = get_call(request)
    given = query_string.parse_form(_LanguageForm, await _read_choice(call)).language
    language = Language(given) if given in set(Language) else None
    await _store(call, ChooseSettings(language=language))
    return _redirect_with_cookie(call, LANGUAGE_COOKIE, language)


async def _read_choice(call: Call) -> bytes:
    """The form. It needs no CSRF token, since forms of other origins are refused."""
    await SignedOutAccess().admit(call)
    return await request_body.read(call)


async def _store(call: Call, choice: ChooseSettings) -> None:
    if (visitor := await find_visitor(call)) is not None:
        await settings.choose_settings(call.ports, visitor.user.id, choice)


def _redirect_with_cookie(call: Call, name: str, value: str | None) -> Redirect:
    onward = Redirect(return_path(call) or "/", status_code=303)
    onward.headers["set-cookie"] = _preference_cookie(call, name, value)
    return onward


def _preference_cookie(call: Call, name: str, value: str | None) -> str:
    age = PREFERENCE_COOKIE_SECONDS if value else 0
    path = mounting.base_path(call.ports.policy) or "/"
    return f"{name}={value or ''}; Path={path}; Max-Age={age}; SameSite=Lax"


PAGES = (choose_theme, choose_language)
