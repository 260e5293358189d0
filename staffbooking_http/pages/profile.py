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
from staffbooking_core.domain.companions.portfolio import NewItem
from staffbooking_core.domain.shared.rate_limits import LimitExceeded
from staffbooking_core.errors import InvalidInput, RuleBroken, StaffbookingError
from staffbooking_core.inputs import (
    AddPortfolioItem,
    ChangeProfile,
    Name,
    Rate,
    Services,
    Text,
    Timezone,
)
from staffbooking_core.representations.records import Record, own_item_record, profile_record
from staffbooking_core.usecases import idempotency
from staffbooking_core.usecases.companions import images, profiles, search
from staffbooking_core.usecases.idempotency import AnsweredBefore, Keep
from staffbooking_http.api import query_string, rate_limits
from staffbooking_http.api.endpoint import Call
from staffbooking_http.api.errors import Refused
from staffbooking_http.api.uploads import FIELD, Upload
from staffbooking_http.pages.session import (
    Asked,
    Proof,
    Visitor,
    Written,
    call_of,
    named,
    proven,
    read_file,
    read_form,
    refused,
    shown,
    staff_member,
    told,
)

_ME, _PROFILE = "/staff/me", "profile.html"
_SHOWCASE, _PORTFOLIO = "/staff/showcase", "portfolio.html"
_IMAGES = "/staff/images"
"""Where programs upload: pictures take their turns together with theirs."""
_TOLD = (InvalidInput, LimitExceeded, RuleBroken, Refused)
"""What is told on the page that it was sent from."""

_DONE = {
    "saved": "Your profile is saved.",
    "photo": "Your photo is saved.",
    "removed": "Your photo is removed.",
}
"""What happened, by the word that the page's address ends in."""
_SHOWCASE_DONE = {"added": "Your work is added.", "removed": "Your work is removed."}
"""The same of the other page."""


# Profile --------------------------------------------------------------------------------


@frozen(kw_only=True)
class _Draft:
    """What somebody filled in, whether it can be taken or not; lists have a name on each line."""

    first_name: Written = ""
    last_name: Written = ""
    tagline: Written = ""
    bio: Written = ""
    hourly_rate: Written = ""
    daily_rate: Written = ""
    location_city: Written = ""
    location_country: Written = ""
    service_types: Written = ""
    languages: Written = ""
    years_experience: Written = ""
    timezone: Written = ""


@frozen(kw_only=True)
class _Profile(ChangeProfile):
    """The same, as it can be taken: a form says all at once, so what an approval needs is
    required."""

    first_name: Name
    last_name: Name
    hourly_rate: Rate
    location_city: Name
    location_country: Name
    service_types: Services
    timezone: Timezone


@get(_ME)
async def profile(request: Asked) -> Template:
    """What a staff member says of themselves, and how it stands."""
    call = call_of(request)
    visitor = await staff_member(call)
    seen = await _seen(call, visitor)
    return shown(_PROFILE, visitor, done=told(call, _DONE), draft=_drafted(seen["profile"]), **seen)


@post(_ME, status_code=200)
async def save(request: Asked) -> Template | Redirect:
    """Say it anew; what can't be taken stays in the form."""
    call = call_of(request)
    visitor = await staff_member(call)
    draft = query_string.read_form(_Draft, await proven(call, visitor))
    try:
        await rate_limits.count(call, f"user:{visitor.user.id}")
        await profiles.change_profile(call.ports, visitor.actor, _read(draft))
    except (InvalidInput, LimitExceeded) as error:
        seen = await _seen(call, visitor)
        return refused(_PROFILE, visitor, error, draft=draft, **seen)
    return Redirect(f"{_ME}?saved", status_code=303)


def _read(draft: _Draft) -> _Profile:
    """What it says; what is empty is None or an empty text, and no absence. Raises InvalidInput."""
    needed = ("first_name", "last_name", "location_city", "location_country", "timezone")
    return structure(
        _Profile,
        {
            **{name: getattr(draft, name) or None for name in needed},
            "tagline": draft.tagline,
            "bio": draft.bio,
            "hourly_rate": _number(draft.hourly_rate),
            "daily_rate": _number(draft.daily_rate),
            # No service has a comma in its name, and people part them by it.
            "service_types": _names(draft.service_types.replace(",", "\n")) or None,
            "languages": _names(draft.languages),
            "years_experience": _number(draft.years_experience),
        },
    )


_NUMBER = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?")


def _number(text: str) -> int | Decimal | str | None:
    """A number as JSON has it; the text where it is none, and None where it is empty."""
    if not _NUMBER.fullmatch(text):
        return text or None
    return Decimal(text) if "." in text else int(text)


def _names(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _drafted(profile: Record) -> _Draft:
    """The form as it is filled in first: with what is stored."""
    every = {name: profile[name] for name in _Draft.__annotations__}
    texts = {name: _text(value) for name, value in every.items() if value is not None}
    return _Draft(**texts)


def _text(value: Any) -> str:
    return "\n".join(value) if isinstance(value, list) else str(value)


async def _seen(call: Call, visitor: Visitor) -> dict[str, Any]:
    """What the page shows beside the form."""
    currency = call.ports.policy.currency
    companion = await profiles.profile(call.ports, visitor.actor)
    profile = profile_record(companion, currency)
    return {
        "profile": profile,
        "listed": companion.is_listed,
        "missing": [named(field) for field in profile["missing"]],
        "offered": await search.services(call.ports),
        "timezones": sorted(availability.timezones()),
        "finest": currency.to_decimal(1),
        "day_hours": call.ports.policy.day_rate_from_hours,
        "most_bytes": call.ports.policy.max_image_bytes,
    }


# Photo ----------------------------------------------------------------------------------


@post("/staff/me/photo", status_code=200)
async def change_photo(request: Asked) -> Template | Redirect:
    """Show another photo, or the first."""
    call = call_of(request)
    visitor = await staff_member(call, back=_ME)

    async def change(upload: Upload) -> None:
        async with _uploaded(call, visitor, upload) as path:
            await profiles.set_photo(call.ports, visitor.actor, path)

    try:
        await read_file(call, visitor, _IMAGES, call.ports.policy.max_image_bytes, change)
    except _TOLD as error:
        seen = await _seen(call, visitor)
        return refused(_PROFILE, visitor, error, draft=_drafted(seen["profile"]), **seen)
    return Redirect(f"{_ME}?photo", status_code=303)


@post("/staff/me/photo/removal", status_code=200)
async def remove_photo(request: Asked) -> Redirect:
    """Show none any more."""
    call = call_of(request)
    visitor = await staff_member(call, back=_ME)
    await read_form(call, visitor, Proof)
    await profiles.set_photo(call.ports, visitor.actor, "")
    return Redirect(f"{_ME}?removed", status_code=303)


# Portfolio ------------------------------------------------------------------------------


@frozen(kw_only=True)
class _Item:
    """What somebody says of a piece of work, whether it can be taken or not."""

    title: Written = ""
    description: Written = ""
    key: Written = ""


@frozen(kw_only=True)
class _Work(AddPortfolioItem):
    """The same, as it can be taken."""

    key: Annotated[str, Text(255)]
    """Made anew each time that the form is drawn: what is sent twice from it is done once."""


@get(_SHOWCASE)
async def portfolio(request: Asked) -> Template:
    """A staff member's work, and whether others see it."""
    call = call_of(request)
    visitor = await staff_member(call)
    draft = _Item(key=call.ports.ids.token())
    items = await _items(call, visitor)
    return shown(_PORTFOLIO, visitor, done=told(call, _SHOWCASE_DONE), draft=draft, **items)


@post(_SHOWCASE, status_code=200)
async def add(request: Asked) -> Template | Redirect:
    """Add a piece of work; texts that can't be taken stay in the form."""
    call = call_of(request)
    visitor = await staff_member(call)
    draft = _Item()

    def note(form: bytes) -> None:
        nonlocal draft
        draft = query_string.read_form(_Item, form)

    async def keep(upload: Upload) -> None:
        needed = {"title": draft.title or None, "key": draft.key or None}
        texts = {**needed, "description": draft.description, "image": FIELD}
        await _add(call, visitor, structure(_Work, texts), upload)

    most = call.ports.policy.max_image_bytes
    try:
        await read_file(call, visitor, _IMAGES, most, keep, note)
    except AnsweredBefore as before:
        return Redirect(before.answer.body.decode(), status_code=303)
    except _TOLD as error:
        if error.code == _SENT.code:
            error, draft = _SENT, evolve(draft, key="")
        draft = evolve(draft, key=draft.key or call.ports.ids.token())
        items = await _items(call, visitor)
        return refused(_PORTFOLIO, visitor, error, draft=draft, **items)
    return Redirect(_ADDED, status_code=303)


_ADDED = f"{_SHOWCASE}?added"
_SENT = RuleBroken(
    "idempotency_mismatch",
    "This form added something before, filled in otherwise: it is among your work. "
    "Sent now, it adds another piece",
)


async def _add(call: Call, visitor: Visitor, given: _Work, upload: Upload) -> None:
    fingerprint = hashlib.sha256(upload.form + b"\0" + upload.content).digest()
    scope = f"user:{visitor.user.id}"
    keep = Keep[NewItem](scope, given.key, fingerprint, lambda _: (303, _ADDED.encode()))
    # Before there is one more picture, for which there may be no room.
    await idempotency.check(call.ports, keep)
    async with _uploaded(call, visitor, upload) as path:
        await profiles.add_item(call.ports, visitor.actor, evolve(given, image=path), keep)


@post("/staff/showcase/{number:str}", status_code=200)
async def take_out(request: Asked) -> Redirect:
    """Take a piece of work out."""
    call = call_of(request)
    visitor = await staff_member(call, back=_SHOWCASE)
    await read_form(call, visitor, Proof)
    number = call.path_id("Portfolio item")
    await profiles.remove_item_and_image(call.ports, visitor.actor, number)
    return Redirect(f"{_SHOWCASE}?removed", status_code=303)


async def _items(call: Call, visitor: Visitor) -> dict[str, Any]:
    """What the page shows beside the form."""
    found = await profiles.portfolio(call.ports, visitor.actor)
    return {
        "items": [own_item_record(item) for item in found],
        "most": call.ports.policy.max_portfolio_items,
        "most_bytes": call.ports.policy.max_image_bytes,
    }


# Pictures -------------------------------------------------------------------------------


@asynccontextmanager
async def _uploaded(call: Call, visitor: Visitor, upload: Upload) -> AsyncIterator[str]:
    """The path of an uploaded picture; where it can't be shown then, nothing of it stays."""
    image = await images.upload(call.ports, visitor.actor, upload.content, upload.media)
    try:
        yield image.path
    except (StaffbookingError, AnsweredBefore):
        with suppress(StaffbookingError):  # It may be shown after all; the first is told.
            await images.remove(call.ports, visitor.actor, image.name)
        raise


PAGES = (profile, save, change_photo, remove_photo, portfolio, add, take_out)
