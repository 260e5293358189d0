"""Jinja templates of the pages: the environment, its filters, and what a template knows of a visit.

Templates write texts through gettext (`_("…")`) and every date, time and amount through a filter,
so that both follow the visitor's locale.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, lru_cache
from gettext import NullTranslations
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from attrs import frozen
from jinja2 import Environment, FileSystemLoader, Template, pass_context
from jinja2.runtime import Context
from litestar.plugins.jinja import JinjaTemplateEngine
from litestar.template.config import TemplateConfig
from markupsafe import Markup, escape

from staffbooking_adapters import codec
from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.guidance import Guidance
from staffbooking_http.api import query_string, request_body
from staffbooking_http.pages.assets import asset_path
from staffbooking_http.pages.booking_texts import (
    ACTION_LABELS,
    STATUS_LABELS,
    first_name,
    format_deadline,
    format_passing_span,
    format_span,
    guidance_sentence,
)
from staffbooking_http.pages.faults import ErrorSentence, fault_sentence, field_label
from staffbooking_http.pages.hours_texts import format_shifts
from staffbooking_http.pages.icons import draw_icon
from staffbooking_http.pages.locales import (
    LANGUAGES,
    PageLocale,
    find_locale,
    to_instant,
    zone_city,
)
from staffbooking_http.pages.navigation import (
    SIGNED_OUT_NAVIGATION,
    NavigationItem,
    navigation_of,
)
from staffbooking_http.pages.sent_values import format_sent_value
from staffbooking_http.pages.testers.bar import DemoBar

_TEMPLATES_DIRECTORY = Path(__file__).parent / "templates"

THEMES = ("light", "dark")
THEME_COOKIE = "theme"
LANGUAGE_COOKIE = "language"


@frozen
class PageView:
    """What templates know of a visit: the locale, the path, the theme (empty: the system's), the
    address to come back to (a signed-in visitor's with its query), the bar of a sandbox with a
    sample, and whether a sandbox keeps its mails to be read."""

    locale: PageLocale
    path: str
    theme: str
    address: str = ""
    demo: DemoBar | None = None
    keeps_mails: bool = False


@cache
def create_template_config(base_path: str) -> TemplateConfig[JinjaTemplateEngine]:
    """Template configuration whose links begin with `base_path`, the path of the base URL."""
    return TemplateConfig(
        engine=JinjaTemplateEngine.from_environment(create_environment(base_path))
    )


class _PageTemplate(Template):
    """A template that tells its `_TOLD` values in the visitor's language: handlers and use-cases
    give them in English."""

    def render(self, *args: Any, **values: Any) -> str:
        context: dict[str, Any] = dict(*args, **values)
        if any(context.get(name) for name in _TOLD):
            locale = view_of_context(context).locale
            told = {name: _tell(context[name], locale) for name in _TOLD if name in context}
            context |= told
        return super().render(context)


_TOLD = ("done", "problem")


def _tell(told: object, locale: PageLocale) -> object:
    match told:
        case ErrorSentence():
            return told.in_locale(locale)
        case Markup():
            return told
        case str():
            return translate(told, locale.translations)
    return told


def translate(message: str, translations: NullTranslations) -> str:
    """A message in a language; the empty one, which is the header of catalogues, stays empty."""
    return message and translations.gettext(message)


@cache
def create_environment(base_path: str) -> Environment:
    """The template environment of a service mounted at `base_path`."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES_DIRECTORY),
        autoescape=True,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    environment.template_class = _PageTemplate
    environment.install_gettext_callables(  # type: ignore[attr-defined]
        _translate, _translate_plural, newstyle=True, pgettext=_translate_in_context
    )
    environment.globals |= {
        "_": _format_message,
        "base_path": base_path,
        "asset": lambda name: base_path + asset_path(name),
        "icon": draw_icon,
        "page_languages": LANGUAGES,
        "navigation": _navigation,
        "page_view": _page_view,
        "query": _format_query,
        "tile": _render_tile,
    }
    environment.filters |= {
        "action_label": ACTION_LABELS.__getitem__,
        "city": zone_city,
        "clock": _by_locale(PageLocale.format_clock),
        "date": _by_locale(PageLocale.format_date),
        "fault": _format_fault,
        "field_label": _format_field_label,
        "first_name": first_name,
        "day": _by_locale(PageLocale.format_day),
        "deadline": _by_locale(format_deadline),
        "guidance": _format_guidance,
        "initials": _format_initials,
        "local_day": _by_locale(PageLocale.format_local_day),
        "moment": _by_locale(PageLocale.format_moment),
        "local_clock": _by_locale(PageLocale.format_local_clock),
        "money": _by_locale(PageLocale.format_money),
        "month": _by_locale(PageLocale.format_month),
        "number": _by_locale(PageLocale.format_number),
        "prose": _format_prose,
        "public_name": _format_public_name,
        "sent_value": _by_locale(format_sent_value),
        "shape": _format_schema,
        "shifts": _by_locale(format_shifts),
        "short_day": _by_locale(PageLocale.format_short_day),
        "short_month": _by_locale(PageLocale.format_short_month),
        "span": _format_span,
        "passing_span": _format_passing_span,
        "status_label": STATUS_LABELS.__getitem__,
        "time_element": _format_time_element,
        "weekday": _by_locale(PageLocale.format_weekday),
    }
    return environment


@pass_context
def _page_view(context: Context) -> PageView:
    return view_of_context(context)


def view_of_context(context: Mapping[str, Any] | Context) -> PageView:
    """The visit that a template is rendered for. Pages that are rendered without a request give it
    as `page_of_visit`."""
    if (given := context.get("page_of_visit")) is not None:
        view: PageView = given
        return view
    state: dict[str, Any] = context["request"].scope["state"]
    if "page_view" not in state:
        state["page_view"] = view_of_scope(context["request"].scope)
    found: PageView = state["page_view"]
    return found


def view_of_scope(scope: Mapping[str, Any]) -> PageView:
    """The visit of a request: by the settings of the signed-in user's account, then by cookies,
    then by `Accept-Language`."""
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    cookies = _read_cookies(headers.get(b"cookie", ""))
    state = scope.get("state", {})
    visitor = state.get("visitor")
    theme, language, timezone = cookies.get(THEME_COOKIE), cookies.get(LANGUAGE_COOKIE), None
    address = scope["path"]
    if visitor is not None:
        user = visitor.user
        if scope["method"] != "POST":
            address = query_string.requested_address(scope)
        theme, language, timezone = user.theme or theme, user.language or language, user.timezone
    return PageView(
        find_locale(headers.get(b"accept-language", ""), language or "", timezone),
        scope["path"],
        theme if theme in THEMES else "",
        address,
        state.get("demo"),
        state.get("keeps_mails", False),
    )


def _read_cookies(cookie_header: str) -> Mapping[str, str]:
    """The cookies of the visitor's preferences; none where the header is no list of cookies."""
    if THEME_COOKIE not in cookie_header and LANGUAGE_COOKIE not in cookie_header:
        return {}
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(cookie_header).items()}
    except CookieError:
        return {}


# Texts ----------------------------------------------------------------------------------


@pass_context
def _format_message(context: Context, message: str, **values: object) -> Markup:
    """A message in the visitor's language with its values, as Jinja's own `_`, in one call."""
    text = _message_markup(_page_view(context).locale.translations, message)
    return text % values if values or "%" in text else text


@lru_cache(8192)
def _message_markup(translations: NullTranslations, message: str) -> Markup:
    return Markup(translate(message, translations))


@pass_context
def _translate(context: Context, message: str) -> str:
    return translate(message, _page_view(context).locale.translations)


@pass_context
def _translate_in_context(context: Context, meaning: str, message: str) -> str:
    """A message that has two meanings in English, in the one that its context names."""
    return _page_view(context).locale.translations.pgettext(meaning, message)


@pass_context
def _translate_plural(context: Context, singular: str, plural: str, count: int) -> str:
    return _page_view(context).locale.translations.ngettext(singular, plural, count)


@pass_context
def _format_fault(context: Context, message: str) -> str:
    return fault_sentence(message, _page_view(context).locale)


@pass_context
def _format_field_label(context: Context, field: str) -> str:
    return field_label(field, _page_view(context).locale.translations)


def _navigation(user: User | None) -> Sequence[NavigationItem]:
    """The navigation of a user; without one, that of a signed-out visitor."""
    return navigation_of(user) if user else SIGNED_OUT_NAVIGATION


# People ---------------------------------------------------------------------------------


@pass_context
def _render_tile(
    context: Context, row: bytes, currency: str, carried: str = "", level: int = 2
) -> Markup:
    """A row of the search as a tile that links to the profile; `carried` is the query string of
    the link, `level` that of the heading."""
    locale = _page_view(context).locale
    return _tile_markup(context.environment, locale, row, currency, carried, level)


# The same people are found again and again: a tile is made when its row has changed.
@lru_cache(2_000)
def _tile_markup(
    environment: Environment,
    locale: PageLocale,
    row: bytes,
    currency: str,
    carried: str,
    level: int,
) -> Markup:
    people = environment.get_template("people.html")
    visit = PageView(locale, path="", theme="")
    module: Any = people.make_module({"page_of_visit": visit})
    tile: Markup = module.tile(request_body.parse_object(row), currency, carried, level)
    return tile


# Formats by locale ----------------------------------------------------------------------


def _by_locale(method: Callable[..., str]) -> Callable[..., str]:
    """A filter that calls a method of `PageLocale` on the visitor's locale."""

    @pass_context
    def format_value(context: Context, *values: Any) -> str:
        return method(_page_view(context).locale, *values)

    return format_value


@pass_context
def _format_time_element(
    context: Context, instant: datetime | str, timezone: str | None = None
) -> Markup:
    """An instant as a `<time>` element in a time zone. A script adds the browser's own time where
    that differs."""
    text = _page_view(context).locale.format_moment(instant, timezone)
    moment = to_instant(instant).isoformat().replace("+00:00", "Z")
    return Markup('<time datetime="{}" data-zone="{}">{}</time>').format(
        moment, timezone or "UTC", text
    )


@pass_context
def _format_span(context: Context, span: timedelta) -> str:
    return format_span(span, _page_view(context).locale)


@pass_context
def _format_passing_span(context: Context, span: timedelta) -> str:
    return format_passing_span(span, _page_view(context).locale)


@pass_context
def _format_guidance(context: Context, guidance: Guidance, booking: Booking) -> str:
    return guidance_sentence(guidance, booking, _page_view(context).locale)


# Formats for every locale ---------------------------------------------------------------


def _format_initials(name: str) -> str:
    """The first letters of the first and the last word of a name, in upper case."""
    words = name.split()
    return "".join(word[0] for word in (words[:1] + words[1:][-1:])).upper()


def _format_public_name(name: str) -> str:
    """A full name as pages for everybody show it: the first word, and the initial of the last."""
    words = name.split()
    return " ".join((*words[:1], *(f"{word[0]}." for word in words[1:][-1:])))


def _format_query(**given: object) -> str:
    """The query string of the non-empty values, with its `?`; empty without any."""
    said = urlencode({name: value for name, value in given.items() if value})
    return f"?{said}" if said else ""


def _format_prose(text: str) -> Markup:
    """Escaped text with backquoted parts as `<code>` elements."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _format_schema(schema: dict[str, Any]) -> str:
    """A short human-readable description of a JSON schema."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if options := schema.get("anyOf") or schema.get("allOf"):
        return " | ".join(_format_schema(option) for option in options)
    if values := schema.get("enum"):
        return " | ".join(values)
    if "const" in schema:
        return str(codec.encode(schema["const"]), "ascii")
    if schema.get("type") == "array":
        return f"[{_format_schema(schema['items'])}]"
    if fields := schema.get("properties"):
        return "{" + ", ".join(fields) + "}"
    kind = schema.get("type")
    words = [" | ".join(kind) if isinstance(kind, list) else str(kind or "")]
    words += [str(schema["format"])] if "format" in schema else []
    words += [f"{name} {schema[part]}" for part, name in _BOUND_LABELS.items() if part in schema]
    return " ".join(words)


_BOUND_LABELS = {
    "minimum": "from",
    "exclusiveMinimum": "above",
    "minLength": "length from",
    "maximum": "to",
    "maxLength": "to",
    "default": "default",
}
