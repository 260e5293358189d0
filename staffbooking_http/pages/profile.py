"""Staff pages for the profile and its photo, with what customers see of it in the search.

They call the same use-cases as `/staff/profile` and `/staff/images`, at paths of their own.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import parse_qsl

from attrs import evolve, field, frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_adapters.inputs import structure
from staffbooking_core.bounds import trimmed
from staffbooking_core.domain.bookings.booking import CompanionRates, quote_price
from staffbooking_core.domain.companions.companion import Companion, normalize_text
from staffbooking_core.domain.companions.completeness import ProfilePart, missing_parts
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import InvalidInput
from staffbooking_core.inputs import ChangeProfile, Name, Rate, ServiceTypes, TimezoneName
from staffbooking_core.policy import Policy
from staffbooking_core.representations.companions import (
    ProfileRecord,
    companion_detail,
    profile_record,
)
from staffbooking_core.usecases.companions import profiles, search
from staffbooking_http.api import query_string, rate_limits
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.api.uploads import Upload
from staffbooking_http.pages.pictures import (
    IMAGES_PATH,
    SHOWN_ERRORS,
    render_upload_error,
    uploaded_image,
)
from staffbooking_http.pages.rendering import view_of_scope
from staffbooking_http.pages.session import (
    CsrfForm,
    DraftText,
    PageRequest,
    flash_text,
    get_call,
    read_form,
    read_upload_form,
    read_verified_form,
    render,
    render_error,
    require_staff_member,
)
from staffbooking_http.pages.terms import figures_of
from staffbooking_http.pages.time_zones import zone_groups

_PATH, _TEMPLATE = "/staff/me", "profile.html"
_FLASH_TEXTS = {
    "saved": "Your profile is saved.",
    "photo": "Your photo is saved.",
    "removed": "Your photo is removed.",
}
"""Messages of the page by flash code in the query string."""
_SHOWN_SERVICES = 24
_EXAMPLE_HOURS = 4
_LANGUAGES = (
    *("English", "Portuguese", "German", "French", "Spanish", "Italian", "Dutch"),
    *("Polish", "Ukrainian", "Arabic", "Chinese", "Hindi"),
)
"""Languages that are offered as boxes; others are typed."""
_PART_LABELS: Mapping[ProfilePart, str] = {
    ProfilePart.SERVICES: "Services",
    ProfilePart.RATE: "Hourly rate",
    ProfilePart.PLACE: "City and country",
    ProfilePart.PHOTO: "Photo",
    ProfilePart.TAGLINE: "Tagline",
    ProfilePart.BIO: "About you",
    ProfilePart.HOURS: "Your hours",
    ProfilePart.LANGUAGES: "Languages",
    ProfilePart.EXPERIENCE: "Years of experience",
    ProfilePart.PORTFOLIO: "Pictures of your work",
}
"""The label of each part, as a message id."""
_PART_PLACES: Mapping[ProfilePart, str] = {
    ProfilePart.SERVICES: "#f-service_types",
    ProfilePart.RATE: "#f-hourly_rate",
    ProfilePart.PLACE: "#f-location_city",
    ProfilePart.PHOTO: "#f-file",
    ProfilePart.TAGLINE: "#f-tagline",
    ProfilePart.BIO: "#f-bio",
    ProfilePart.HOURS: "/staff/hours",
    ProfilePart.LANGUAGES: "#f-languages",
    ProfilePart.EXPERIENCE: "#f-years_experience",
    ProfilePart.PORTFOLIO: "/staff/showcase",
}
"""Where each part is filled in."""


# Profile --------------------------------------------------------------------------------


@frozen(kw_only=True)
class _ProfileDraft:
    """The submitted profile before validation, to refill the form. `service_types` and `languages`
    have the names that are typed, one on each line, beside those of the boxes."""

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


@frozen
class _Boxes:
    """The names of the checked boxes."""

    services: Sequence[str] = ()
    languages: Sequence[str] = ()


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


@get(_PATH)
async def show_profile(request: PageRequest) -> Template:
    """Show the profile form, what it lacks, and what customers see of it."""
    call = get_call(request)
    visitor = await require_staff_member(call)
    seen = await _profile_context(call, visitor)
    return render(_TEMPLATE, visitor, done=flash_text(call, _FLASH_TEXTS), **seen)


@post(_PATH, status_code=200)
async def save_profile(request: PageRequest) -> Template | Redirect:
    """Save the profile; on an error, show the form refilled."""
    call = get_call(request)
    visitor = await require_staff_member(call)
    form = await read_verified_form(call, visitor)
    draft, boxes = query_string.parse_form(_ProfileDraft, form), _checked_boxes(form)
    try:
        await rate_limits.count_user(call, visitor.user.id)
        await profiles.update_profile(call.ports, visitor.actor, _parse_profile(draft, boxes))
    except (InvalidInput, RateLimitExceeded) as error:
        seen = await _profile_context(call, visitor, draft, boxes)
        return render_error(_TEMPLATE, visitor, error, **seen)
    return Redirect(f"{_PATH}?saved", status_code=303)


def _checked_boxes(form: bytes) -> _Boxes:
    pairs = parse_qsl(form.decode("latin-1"))
    return _Boxes(
        [text for name, text in pairs if name == "service"],
        [text for name, text in pairs if name == "language"],
    )


def _parse_profile(draft: _ProfileDraft, boxes: _Boxes) -> _ProfileForm:
    """Validate a draft; empty fields are None or empty text, never absent. Raises InvalidInput."""
    needed = ("first_name", "last_name", "location_city", "location_country", "timezone")
    # Commas also separate services: no service name contains one.
    services = _with_typed(boxes.services, draft.service_types.replace(",", "\n"))
    return structure(
        _ProfileForm,
        {
            **{name: getattr(draft, name) or None for name in needed},
            "tagline": draft.tagline,
            "bio": draft.bio,
            "hourly_rate": _parse_number(draft.hourly_rate),
            "daily_rate": _parse_number(draft.daily_rate),
            "service_types": services or None,
            "languages": _with_typed(boxes.languages, draft.languages),
            "years_experience": _parse_number(draft.years_experience),
        },
    )


def _with_typed(checked: Sequence[str], typed: str) -> list[str]:
    """The checked names, and the typed ones that are not among them."""
    known = {normalize_text(name) for name in checked}
    return [*checked, *(name for name in _split_lines(typed) if normalize_text(name) not in known)]


_NUMBER_PATTERN = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?")


def _parse_number(text: str) -> int | Decimal | str | None:
    """Parse a decimal number; return other text unchanged, and None for empty text."""
    if not _NUMBER_PATTERN.fullmatch(text):
        return text or None
    return Decimal(text) if "." in text else int(text)


def _split_lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


async def _profile_context(
    call: Call,
    visitor: SignedInUser,
    draft: _ProfileDraft | None = None,
    boxes: _Boxes | None = None,
) -> dict[str, Any]:
    """The template context: the form as it is submitted, else as it is stored."""
    policy = call.ports.policy
    companion = await profiles.get_profile(call.ports, visitor.actor)
    items = await profiles.list_portfolio_items(call.ports, visitor.actor)
    profile = profile_record(companion, policy.currency)
    stored = _Boxes(profile["service_types"], profile["languages"])
    shown, checked = draft or _stored_draft(profile), boxes or stored
    offered = (await search.list_service_names(call.ports))[:_SHOWN_SERVICES]
    missing = missing_parts(companion, len(items))
    return {
        "profile": profile,
        "listed": companion.is_listed,
        "draft": shown,
        "boxes": checked,
        "offered": _merge_names(stored.services, checked.services, offered),
        "known_languages": _merge_names(stored.languages, checked.languages, _LANGUAGES),
        "parts": len(ProfilePart),
        "missing": [(part, _PART_LABELS[part], _PART_PLACES[part]) for part in missing],
        "preview": _preview(companion, shown, checked, policy),
        "example": _example_prices(shown, policy),
        "example_hours": _EXAMPLE_HOURS,
        "zones": zone_groups(
            view_of_scope(call.scope).locale,
            call.now.date(),
            shown.timezone,
            shown.location_country,
            shown.location_city,
        ),
        "guesses_zone": draft is None
        and profile["timezone"] == "UTC"
        and not profile["location_city"],
        "finest": policy.currency.to_decimal(1),
        "decimals": policy.currency.decimals,
        "most_bytes": policy.max_image_bytes,
        **figures_of(policy),
    }


def _merge_names(*lists: Iterable[str]) -> list[str]:
    """The names of all lists, each once regardless of case, in the order of the lists."""
    found: dict[str, str] = {}
    for name in (name for names in lists for name in names):
        found.setdefault(normalize_text(name), name)
    return list(found.values())


def _stored_draft(profile: ProfileRecord) -> _ProfileDraft:
    """The form filled with the stored profile; all its names of lists have boxes."""
    texts = {
        name: str(value)
        for name, value in profile.items()
        if name in _ProfileDraft.__annotations__ and value is not None
    }
    return evolve(_ProfileDraft(**texts), service_types="", languages="")


def _preview(
    companion: Companion, draft: _ProfileDraft, boxes: _Boxes, policy: Policy
) -> dict[str, Any]:
    """The search's record of the profile as the form has it."""
    record = companion_detail(companion, policy.currency)["companion"]
    services = _with_typed(boxes.services, draft.service_types.replace(",", "\n"))
    return {
        **record,
        "first_name": draft.first_name,
        "tagline": draft.tagline,
        "location_city": draft.location_city,
        "location_country": draft.location_country,
        "service_types": ",".join(services),
        "hourly_rate": policy.currency.to_decimal(_rate_of(draft, policy)),
    }


def _rate_of(draft: _ProfileDraft, policy: Policy) -> int:
    """The hourly rate of the form in minor units; 0 where it is none."""
    rate = _parse_number(draft.hourly_rate)
    try:
        return max(policy.currency.to_minor(rate), 0) if isinstance(rate, Decimal | int) else 0
    except (ValueError, InvalidOperation):
        return 0


def _example_prices(draft: _ProfileDraft, policy: Policy) -> Mapping[str, Decimal]:
    """What a customer pays for some hours at the form's rate, the fee of it, and the rest."""
    rates = CompanionRates(_rate_of(draft, policy), None)
    quote = quote_price(rates, _EXAMPLE_HOURS, False, policy)
    to_decimal = policy.currency.to_decimal
    return {
        "price": to_decimal(quote.price),
        "fee": to_decimal(quote.platform_fee),
        "payout": to_decimal(quote.payout_amount),
    }


# Photo ----------------------------------------------------------------------------------


@post("/staff/me/photo", status_code=200)
async def change_photo(request: PageRequest) -> Template | Redirect:
    """Upload the profile photo, replacing any other."""
    call = get_call(request)
    visitor = await require_staff_member(call, return_to=_PATH)

    async def change(upload: Upload) -> None:
        async with uploaded_image(call, visitor, upload) as image:
            await profiles.set_profile_photo(call.ports, visitor.actor, image.path)

    try:
        await read_upload_form(
            call, visitor, IMAGES_PATH, call.ports.policy.max_image_bytes, change
        )
    except SHOWN_ERRORS as error:
        seen = await _profile_context(call, visitor)
        return render_upload_error(_TEMPLATE, visitor, error, seen.pop("most_bytes"), **seen)
    return Redirect(f"{_PATH}?photo", status_code=303)


@post("/staff/me/photo/removal", status_code=200)
async def remove_photo(request: PageRequest) -> Redirect:
    """Remove the profile photo."""
    call = get_call(request)
    visitor = await require_staff_member(call, return_to=_PATH)
    await read_form(call, visitor, CsrfForm)
    await profiles.set_profile_photo(call.ports, visitor.actor, "")
    return Redirect(f"{_PATH}?removed", status_code=303)


PAGES = (show_profile, save_profile, change_photo, remove_photo)
