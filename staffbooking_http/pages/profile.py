"""Pages on which staff members say who they are and show their work. They do what
`/staff/profile`, `/staff/images` and `/staff/portfolio` do, and have paths of their own. They
have no list of images: one that nothing shows any more is removed."""

import hashlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from decimal import Decimal
from typing import Annotated, Any

from attrs import evolve, frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_adapters.inputs import structure
from staffbooking_core.domain.companions import availability
from staffbooking_core.domain.companions.portfolio import NewPortfolioItem
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import InvalidInput, RuleBroken, StaffbookingError
from staffbooking_core.inputs import (
    AddPortfolioItem,
    ChangeProfile,
    Name,
    Rate,
    ServiceTypes,
    TextBounds,
    TimezoneName,
)
from staffbooking_core.representations.companions import (
    ProfileRecord,
    own_portfolio_record,
    profile_record,
)
from staffbooking_core.usecases import idempotency
from staffbooking_core.usecases.companions import images, profiles, search
from staffbooking_core.usecases.idempotency import AlreadyAnswered, IdempotencyRequest
from staffbooking_http.api import query_string, rate_limits
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.api.errors import HttpError
from staffbooking_http.api.uploads import FILE_FIELD, Upload
from staffbooking_http.pages.session import (
    CsrfForm,
    DraftText,
    PageRequest,
    field_label,
    flash_text,
    get_call,
    read_form,
    read_upload_form,
    read_verified_form,
    render,
    render_error,
    require_staff_member,
)

_PROFILE_PATH, _PROFILE_TEMPLATE = "/staff/me", "profile.html"
_PORTFOLIO_PATH, _PORTFOLIO_TEMPLATE = "/staff/showcase", "portfolio.html"
_IMAGES_PATH = "/staff/images"
"""Where programs upload: pictures take their turns together with theirs."""
_SHOWN_ERRORS = (InvalidInput, RateLimitExceeded, RuleBroken, HttpError)
"""What is told on the page that it was sent from."""

_PROFILE_FLASH_TEXTS = {
    "saved": "Your profile is saved.",
    "photo": "Your photo is saved.",
    "removed": "Your photo is removed.",
}
"""What happened, by the word that the page's address ends in."""
_PORTFOLIO_FLASH_TEXTS = {"added": "Your work is added.", "removed": "Your work is removed."}
"""The same of the other page."""


# Profile --------------------------------------------------------------------------------


@frozen(kw_only=True)
class _ProfileDraft:
    """What somebody filled in, whether it can be taken or not; lists have a name on each line."""

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
    """The same, as it can be taken: a form says all at once, so what an approval needs is
    required."""

    first_name: Name
    last_name: Name
    hourly_rate: Rate
    location_city: Name
    location_country: Name
    service_types: ServiceTypes
    timezone: TimezoneName


@get(_PROFILE_PATH)
async def show_profile(request: PageRequest) -> Template:
    """What a staff member says of themselves, and how it stands."""
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
    """Say it anew; what can't be taken stays in the form."""
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
    """What it says; what is empty is None or an empty text, and no absence. Raises InvalidInput."""
    needed = ("first_name", "last_name", "location_city", "location_country", "timezone")
    return structure(
        _ProfileForm,
        {
            **{name: getattr(draft, name) or None for name in needed},
            "tagline": draft.tagline,
            "bio": draft.bio,
            "hourly_rate": _parse_number(draft.hourly_rate),
            "daily_rate": _parse_number(draft.daily_rate),
            # No service has a comma in its name, and people part them by it.
            "service_types": _split_lines(draft.service_types.replace(",", "\n")) or None,
            "languages": _split_lines(draft.languages),
            "years_experience": _parse_number(draft.years_experience),
        },
    )


_NUMBER_PATTERN = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?")


def _parse_number(text: str) -> int | Decimal | str | None:
    """A number as JSON has it; the text where it is none, and None where it is empty."""
    if not _NUMBER_PATTERN.fullmatch(text):
        return text or None
    return Decimal(text) if "." in text else int(text)


def _split_lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _profile_draft(profile: ProfileRecord) -> _ProfileDraft:
    """The form as it is filled in first: with what is stored."""
    texts = {
        name: _format_field(value)
        for name, value in profile.items()
        if name in _ProfileDraft.__annotations__ and value is not None
    }
    return _ProfileDraft(**texts)


def _format_field(value: Any) -> str:
    return "\n".join(value) if isinstance(value, list) else str(value)


async def _profile_context(call: Call, visitor: SignedInUser) -> dict[str, Any]:
    """What the page shows beside the form."""
    currency = call.ports.policy.currency
    companion = await profiles.get_profile(call.ports, visitor.actor)
    profile = profile_record(companion, currency)
    return {
        "profile": profile,
        "listed": companion.is_listed,
        "missing": [field_label(field) for field in profile["missing"]],
        "offered": await search.list_service_names(call.ports),
        "timezones": sorted(availability.known_timezones()),
        "finest": currency.to_decimal(1),
        "day_hours": call.ports.policy.day_rate_from_hours,
        "most_bytes": call.ports.policy.max_image_bytes,
    }


# Photo ----------------------------------------------------------------------------------


@post("/staff/me/photo", status_code=200)
async def change_photo(request: PageRequest) -> Template | Redirect:
    """Show another photo, or the first."""
    call = get_call(request)
    visitor = await require_staff_member(call, return_to=_PROFILE_PATH)

    async def change(upload: Upload) -> None:
        async with _uploaded_image(call, visitor, upload) as path:
            await profiles.set_profile_photo(call.ports, visitor.actor, path)

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
    """Show none any more."""
    call = get_call(request)
    visitor = await require_staff_member(call, return_to=_PROFILE_PATH)
    await read_form(call, visitor, CsrfForm)
    await profiles.set_profile_photo(call.ports, visitor.actor, "")
    return Redirect(f"{_PROFILE_PATH}?removed", status_code=303)


# Portfolio ------------------------------------------------------------------------------


@frozen(kw_only=True)
class _PortfolioItemDraft:
    """What somebody says of a piece of work, whether it can be taken or not."""

    title: DraftText = ""
    description: DraftText = ""
    key: DraftText = ""


@frozen(kw_only=True)
class _PortfolioItemForm(AddPortfolioItem):
    """The same, as it can be taken."""

    key: Annotated[str, TextBounds(255)]
    """Made anew each time that the form is drawn: what is sent twice from it is done once."""


@get(_PORTFOLIO_PATH)
async def show_portfolio(request: PageRequest) -> Template:
    """A staff member's work, and whether others see it."""
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
    """Add a piece of work; texts that can't be taken stay in the form."""
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
    except AlreadyAnswered as before:
        return Redirect(before.response.body.decode(), status_code=303)
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
    fingerprint = hashlib.sha256(upload.other_fields + b"\0" + upload.content).digest()
    scope = f"user:{visitor.user.id}"
    keep = IdempotencyRequest[NewPortfolioItem](
        scope, given.key, fingerprint, lambda _: (303, _ADDED_URL.encode())
    )
    # Before there is one more picture, for which there may be no room.
    await idempotency.check_replay(call.ports, keep)
    async with _uploaded_image(call, visitor, upload) as path:
        await profiles.add_portfolio_item(
            call.ports, visitor.actor, evolve(given, image=path), keep
        )


@post("/staff/showcase/{number:str}", status_code=200)
async def remove_portfolio_item(request: PageRequest) -> Redirect:
    """Take a piece of work out."""
    call = get_call(request)
    visitor = await require_staff_member(call, return_to=_PORTFOLIO_PATH)
    await read_form(call, visitor, CsrfForm)
    number = call.path_id("Portfolio item")
    await profiles.remove_portfolio_item_and_image(call.ports, visitor.actor, number)
    return Redirect(f"{_PORTFOLIO_PATH}?removed", status_code=303)


async def _portfolio_context(call: Call, visitor: SignedInUser) -> dict[str, Any]:
    """What the page shows beside the form."""
    found = await profiles.list_portfolio_items(call.ports, visitor.actor)
    return {
        "items": [own_portfolio_record(item) for item in found],
        "most": call.ports.policy.max_portfolio_items,
        "most_bytes": call.ports.policy.max_image_bytes,
    }


# Pictures -------------------------------------------------------------------------------


@asynccontextmanager
async def _uploaded_image(call: Call, visitor: SignedInUser, upload: Upload) -> AsyncIterator[str]:
    """The path of an uploaded picture; where it can't be shown then, nothing of it stays."""
    image = await images.upload_image(call.ports, visitor.actor, upload.content, upload.media)
    try:
        yield image.path
    except (StaffbookingError, AlreadyAnswered):
        with suppress(StaffbookingError):  # It may be shown after all; the first is told.
            await images.remove_image(call.ports, visitor.actor, image.name)
        raise


PAGES = (
    show_profile,
    save_profile,
    change_photo,
    remove_photo,
    show_portfolio,
    add_portfolio_item,
    remove_portfolio_item,
)
