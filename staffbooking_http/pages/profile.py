"""Staff pages for the profile, its photo and the portfolio.

They call the same use-cases as `/staff/profile`, `/staff/images` and `/staff/portfolio`, at
paths of their own. There is no list of images: an image that is no longer shown is removed.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from decimal import Decimal
from gettext import NullTranslations
from typing import Annotated, Any

from attrs import evolve, field, frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_adapters.inputs import structure
from staffbooking_core.bounds import TextBounds, trimmed
from staffbooking_core.domain.companions import availability
from staffbooking_core.domain.companions.portfolio import Image
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import InvalidInput, RuleBroken, StaffbookingError
from staffbooking_core.inputs import (
    AddPortfolioItem,
    ChangeProfile,
    Name,
    Rate,
    ServiceTypes,
    TimezoneName,
)
from staffbooking_core.ports import Ports
from staffbooking_core.representations.companions import (
    ProfileRecord,
    own_portfolio_record,
    profile_record,
)
from staffbooking_core.usecases import idempotency
from staffbooking_core.usecases.companions import images, profiles, search
from staffbooking_http.api import query_string, rate_limits
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.api.errors import HttpError
from staffbooking_http.api.uploads import FILE_FIELD, Upload
from staffbooking_http.pages.faults import field_label
from staffbooking_http.pages.session import (
    CsrfForm,
    DraftText,
    PageRequest,
    flash_text,
    form_call,
    get_call,
    read_form,
    read_upload_form,
    read_verified_form,
    render,
    render_error,
    require_staff_member,
    submit_once,
)

_PROFILE_PATH, _PROFILE_TEMPLATE = "/staff/me", "profile.html"
_PORTFOLIO_PATH, _PORTFOLIO_TEMPLATE = "/staff/showcase", "portfolio.html"
_IMAGES_PATH = "/staff/images"
"""API upload path whose upload limiter these pages share."""
_SHOWN_ERRORS = (InvalidInput, RateLimitExceeded, RuleBroken, HttpError)
"""Errors shown on the page of the submitted form."""

_PROFILE_FLASH_TEXTS = {
    "saved": "Your profile is saved.",
    "photo": "Your photo is saved.",
    "removed": "Your photo is removed.",
}
"""Messages of the profile page by flash code in the query string."""
_PORTFOLIO_FLASH_TEXTS = {"added": "Your work is added.", "removed": "Your work is removed."}
"""Messages of the portfolio page by flash code."""


# Profile --------------------------------------------------------------------------------


@frozen(kw_only=True)
class _ProfileDraft:
    """The submitted profile before validation, to refill the form; lists have one name per line."""

    first_name: DraftText = ""
    last_name: DraftText = ""
    tagline: DraftText = ""
    bio: DraftText = ""
    hourly_rate: DraftText = ""
    daily_rate: DraftText = ""
    location_city: DraftText = ""
    location_country: DraftText = ""
    service_types: DraftText = ""
    languages: DraftText = ""
    years_experience: DraftText = ""
    timezone: DraftText = ""


@frozen(kw_only=True)
class _ProfileForm(ChangeProfile):
    """The validated profile form. It has all fields, so those that approval needs are required."""

    first_name: Name = field(converter=trimmed)
    last_name: Name = field(converter=trimmed)
    hourly_rate: Rate
    location_city: Name = field(converter=trimmed)
    location_country: Name = field(converter=trimmed)
    service_types: ServiceTypes = field(converter=trimmed)
    timezone: TimezoneName


@get(_PROFILE_PATH)
async def show_profile(request: PageRequest) -> Template:
    """Show the profile form and the profile's status."""
    call = get_call(request)
    visitor = await require_staff_member(call)
    seen = await _profile_context(call, visitor)
    return render(
        _PROFILE_TEMPLATE,
        visitor,
        done=flash_text(call, _PROFILE_FLASH_TEXTS),
        draft=_profile_draft(seen["profile"]),
        **seen,
    )


@post(_PROFILE_PATH, status_code=200)
async def save_profile(request: PageRequest) -> Template | Redirect:
    """Save the profile; on an error, show the form refilled."""
    call = get_call(request)
    visitor = await require_staff_member(call)
    draft = query_string.parse_form(_ProfileDraft, await read_verified_form(call, visitor))
    try:
        await rate_limits.count_user(call, visitor.user.id)
        await profiles.update_profile(call.ports, visitor.actor, _parse_profile(draft))
    except (InvalidInput, RateLimitExceeded) as error:
        seen = await _profile_context(call, visitor)
        return render_error(_PROFILE_TEMPLATE, visitor, error, draft=draft, **seen)
    return Redirect(f"{_PROFILE_PATH}?saved", status_code=303)


def _parse_profile(draft: _ProfileDraft) -> _ProfileForm:
    """Validate a draft; empty fields are None or empty text, never absent. Raises InvalidInput."""
    needed = ("first_name", "last_name", "location_city", "location_country", "timezone")
    return structure(
        _ProfileForm,
        {
            **{name: getattr(draft, name) or None for name in needed},
            "tagline": draft.tagline,
            "bio": draft.bio,
            "hourly_rate": _parse_number(draft.hourly_rate),
            "daily_rate": _parse_number(draft.daily_rate),
            # Commas also separate services: no service name contains one.
            "service_types": _split_lines(draft.service_types.replace(",", "\n")) or None,
            "languages": _split_lines(draft.languages),
            "years_experience": _parse_number(draft.years_experience),
        },
    )


_NUMBER_PATTERN = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?")


def _parse_number(text: str) -> int | Decimal | str | None:
    """Parse a decimal number; return other text unchanged, and None for empty text."""
    if not _NUMBER_PATTERN.fullmatch(text):
        return text or None
    return Decimal(text) if "." in text else int(text)


def _split_lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _profile_draft(profile: ProfileRecord) -> _ProfileDraft:
    """The form filled with the stored profile."""
    texts = {
        name: _format_field(value)
        for name, value in profile.items()
        if name in _ProfileDraft.__annotations__ and value is not None
    }
    return _ProfileDraft(**texts)


def _format_field(value: Any) -> str:
    return "\n".join(value) if isinstance(value, list) else str(value)


async def _profile_context(call: Call, visitor: SignedInUser) -> dict[str, Any]:
    """The template context except the form."""
    currency = call.ports.policy.currency
    companion = await profiles.get_profile(call.ports, visitor.actor)
    profile = profile_record(companion, currency)
    return {
        "profile": profile,
        "listed": companion.is_listed,
        "missing": [field_label(field, NullTranslations()) for field in profile["missing"]],
        "offered": await search.list_service_names(call.ports),
        "timezones": sorted(availability.known_timezones()),
        "finest": currency.to_decimal(1),
        "day_hours": call.ports.policy.day_rate_from_hours,
        "most_bytes": call.ports.policy.max_image_bytes,
    }


# Photo ----------------------------------------------------------------------------------


@post("/staff/me/photo", status_code=200)
async def change_photo(request: PageRequest) -> Template | Redirect:
    """Upload the profile photo, replacing any other."""
    call = get_call(request)
    visitor = await require_staff_member(call, return_to=_PROFILE_PATH)

    async def change(upload: Upload) -> None:
        async with _uploaded_image(call, visitor, upload) as image:
            await profiles.set_profile_photo(call.ports, visitor.actor, image.path)

    try:
        await read_upload_form(
            call, visitor, _IMAGES_PATH, call.ports.policy.max_image_bytes, change
        )
    except _SHOWN_ERRORS as error:
        seen = await _profile_context(call, visitor)
        return render_error(
            _PROFILE_TEMPLATE, visitor, error, draft=_profile_draft(seen["profile"]), **seen
        )
    return Redirect(f"{_PROFILE_PATH}?photo", status_code=303)


@post("/staff/me/photo/removal", status_code=200)
async def remove_photo(request: PageRequest) -> Redirect:
    """Remove the profile photo."""
    call = get_call(request)
    visitor = await require_staff_member(call, return_to=_PROFILE_PATH)
    await read_form(call, visitor, CsrfForm)
    await profiles.set_profile_photo(call.ports, visitor.actor, "")
    return Redirect(f"{_PROFILE_PATH}?removed", status_code=303)


# Portfolio ------------------------------------------------------------------------------


@frozen(kw_only=True)
class _PortfolioItemDraft:
    """The submitted portfolio item before validation, to refill the form."""

    title: DraftText = ""
    description: DraftText = ""
    key: DraftText = ""


@frozen(kw_only=True)
class _PortfolioItemForm(AddPortfolioItem):
    """The validated portfolio item form."""

    key: Annotated[str, TextBounds(255)]
    """Idempotency key, new for each rendered form: a form submitted twice is applied once."""


@get(_PORTFOLIO_PATH)
async def show_portfolio(request: PageRequest) -> Template:
    """Show the staff member's portfolio and the form that adds an item."""
    call = get_call(request)
    visitor = await require_staff_member(call)
    draft = _PortfolioItemDraft(key=call.ports.ids.token())
    items = await _portfolio_context(call, visitor)
    return render(
        _PORTFOLIO_TEMPLATE,
        visitor,
        done=flash_text(call, _PORTFOLIO_FLASH_TEXTS),
        draft=draft,
        **items,
    )


@post(_PORTFOLIO_PATH, status_code=200)
async def add_portfolio_item(request: PageRequest) -> Template | Redirect:
    """Add a portfolio item; on an error, show the form refilled, without the file."""
    call = get_call(request)
    visitor = await require_staff_member(call)
    draft = _PortfolioItemDraft()

    def note(form: bytes) -> None:
        nonlocal draft
        draft = query_string.parse_form(_PortfolioItemDraft, form)

    async def keep(upload: Upload) -> None:
        needed = {"title": draft.title or None, "key": draft.key or None}
        texts = {**needed, "description": draft.description, "image": FILE_FIELD}
        await _save_portfolio_item(call, visitor, structure(_PortfolioItemForm, texts), upload)

    most = call.ports.policy.max_image_bytes
    try:
        await read_upload_form(call, visitor, _IMAGES_PATH, most, keep, note)
    except _SHOWN_ERRORS as error:
        if error.code == _FORM_REUSED_ERROR.code:
            error, draft = _FORM_REUSED_ERROR, evolve(draft, key="")
        draft = evolve(draft, key=draft.key or call.ports.ids.token())
        items = await _portfolio_context(call, visitor)
        return render_error(_PORTFOLIO_TEMPLATE, visitor, error, draft=draft, **items)
    return Redirect(_ADDED_URL, status_code=303)


_ADDED_URL = f"{_PORTFOLIO_PATH}?added"
_FORM_REUSED_ERROR = RuleBroken(
    "idempotency_mismatch",
    "This form added something before, filled in otherwise: it is among your work. "
    "Sent now, it adds another piece",
)


async def _save_portfolio_item(
    call: Call, visitor: SignedInUser, given: _PortfolioItemForm, upload: Upload
) -> None:
    form = upload.other_fields + b"\0" + upload.content
    # Looked up before the image is stored: a replay must not exceed the image quota.
    if await idempotency.find_response(call.ports, form_call(visitor, given.key, form)):
        return
    async with _uploaded_image(call, visitor, upload) as image:

        async def submit(ports: Ports) -> str:
            item = evolve(given, image=image.path)
            await profiles.add_portfolio_item(ports, visitor.actor, item)
            return _ADDED_URL

        _, is_replay = await submit_once(call, visitor, given.key, form, submit)
    if is_replay:
        await _remove_image(call, visitor, image)


@post("/staff/showcase/{number:str}", status_code=200)
async def remove_portfolio_item(request: PageRequest) -> Redirect:
    """Remove a portfolio item and its image."""
    call = get_call(request)
    visitor = await require_staff_member(call, return_to=_PORTFOLIO_PATH)
    await read_form(call, visitor, CsrfForm)
    number = call.path_id("Portfolio item")
    await profiles.remove_portfolio_item_and_image(call.ports, visitor.actor, number)
    return Redirect(f"{_PORTFOLIO_PATH}?removed", status_code=303)


async def _portfolio_context(call: Call, visitor: SignedInUser) -> dict[str, Any]:
    """The template context except the form."""
    found = await profiles.list_portfolio_items(call.ports, visitor.actor)
    return {
        "items": [own_portfolio_record(item) for item in found],
        "most": call.ports.policy.max_portfolio_items,
        "most_bytes": call.ports.policy.max_image_bytes,
    }


# Pictures -------------------------------------------------------------------------------


@asynccontextmanager
async def _uploaded_image(
    call: Call, visitor: SignedInUser, upload: Upload
) -> AsyncIterator[Image]:
    """Store an uploaded image and yield it; remove it if the block raises an error."""
    image = await images.upload_image(call.ports, visitor.actor, upload.content, upload.media)
    try:
        yield image
    except StaffbookingError:
        await _remove_image(call, visitor, image)
        raise


async def _remove_image(call: Call, visitor: SignedInUser, image: Image) -> None:
    with suppress(StaffbookingError):  # It may be in use; the first error is raised.
        await images.remove_image(call.ports, visitor.actor, image.name)


PAGES = (
    show_profile,
    save_profile,
    change_photo,
    remove_photo,
    show_portfolio,
    add_portfolio_item,
    remove_portfolio_item,
)
