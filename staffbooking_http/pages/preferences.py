"""The visitor's preferences for the pages, kept in cookies: the theme."""

from typing import Annotated

from attrs import frozen
from litestar import post
from litestar.response import Redirect

from staffbooking_core.bounds import TextBounds
from staffbooking_http.api import query_string, request_body
from staffbooking_http.api.access import SignedOutAccess
from staffbooking_http.pages.rendering import THEME_COOKIE, THEMES
from staffbooking_http.pages.session import PageRequest, get_call, return_path

_COOKIE_SECONDS = 365 * 24 * 60 * 60


@frozen(kw_only=True)
class _ThemeForm:
    """The chosen theme: `light`, `dark`, or another word for the system's."""

    theme: Annotated[str, TextBounds(10)] = "system"


@post("/preferences/theme", status_code=200)
async def choose_theme(request: PageRequest) -> Redirect:
    """Keep the theme in a cookie, and redirect to the page in `next`."""
    call = get_call(request)
    await SignedOutAccess().admit(call)
    theme = query_string.parse_form(_ThemeForm, await request_body.read(call)).theme
    onward = Redirect(return_path(call) or "/", status_code=303)
    age = _COOKIE_SECONDS if theme in THEMES else 0
    onward.headers["set-cookie"] = (
        f"{THEME_COOKIE}={theme if age else ''}; Path=/; Max-Age={age}; SameSite=Lax"
    )
    return onward


PAGES = (choose_theme,)
