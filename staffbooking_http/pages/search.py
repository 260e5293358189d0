"""Search pages: companion search and companion detail, by the use-cases of `/api/v1/companions`."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from typing import Annotated, Any, TypeAlias
from urllib.parse import urlencode

from attrs import asdict, frozen
from litestar import Response, get
from litestar.response import Template

from staffbooking_core.bounds import AllowedCharacters, TextBounds
from staffbooking_core.domain.companions import availability
from staffbooking_core.domain.companions.booking_limits import NO_LIMITS, earliest_today
from staffbooking_core.domain.companions.companion import (
    find_offered_service,
    normalize_place,
)
from staffbooking_core.errors import InvalidInput, NotFound
from staffbooking_core.inputs import Name
from staffbooking_core.usecases.bookings import actions
from staffbooking_core.usecases.companions import saved, search
from staffbooking_http.api import query_string, request_body
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.api.query_string import SearchCompanions
from staffbooking_http.pages.free_days import load_month, parse_month
from staffbooking_http.pages.landing import MarketCache
from staffbooking_http.pages.public import absolute_url, admit_visitor, render_public
from staffbooking_http.pages.rendering import view_of_scope
from staffbooking_http.pages.session import (
    DraftText,
    PageRequest,
    drop_empty_fields,
    get_call,
    render_error,
)
from staffbooking_http.pages.structured_data import describe_companion
from staffbooking_http.pages.terms import figures_of

_SEARCH_TEMPLATE, _COMPANION_TEMPLATE = "find.html", "companion.html"
_OptionalDate: TypeAlias = date | None


@frozen(kw_only=True)
class _SearchFilters:
    """The submitted search filters before validation, to refill the form."""

    location: DraftText = ""
    service: DraftText = ""
    date: DraftText = ""
    min_price: DraftText = ""
    max_price: DraftText = ""
    limit: DraftText = ""
    rebooking_of: DraftText = ""


@frozen(kw_only=True)
class _CompanionQuery:
    """The chosen day and service, the month to show, and the code of the cancelled booking to
    rebook."""

    date: _OptionalDate = None
    month: Annotated[str, TextBounds(7, characters=AllowedCharacters.OPAQUE)] | None = None
    service: Name | None = None
    rebooking_of: Annotated[str, TextBounds(64, characters=AllowedCharacters.OPAQUE)] | None = None


# Search ---------------------------------------------------------------------------------


@get("/find")
async def show_search(request: PageRequest) -> Template | Response[bytes]:
    """Show the search form and a page of results; invalid filters stay in the form."""
    call = get_call(request)
    visitor = await admit_visitor(call)
    query = drop_empty_fields(call.scope["query_string"])
    filters = asdict(query_string.parse_query(_SearchFilters, query))
    market: MarketCache = request.app.state.market
    names = await market.get_service_names(call.ports)
    now = await call.ports.clock.business()
    seen: dict[str, Any] = {
        "filters": filters,
        "services": names,
        "service": find_offered_service(names, filters["service"]),
        "currency": call.ports.policy.currency.code,
        "first": earliest_today(now),
        "last": NO_LIMITS.last_day(now.date()),
    }
    try:
        wanted = query_string.parse_query(SearchCompanions, query)
        absent = await _find_absent(call, visitor, filters["rebooking_of"])
        found = await _search(call, wanted, absent)
    except InvalidInput as error:
        return render_error(
            _SEARCH_TEMPLATE, visitor, error, way=query_string.requested_address(call.scope), **seen
        )
    return render_public(
        call,
        visitor,
        _SEARCH_TEMPLATE,
        kept=_filters_query(filters),
        removable=_removable_filters(filters),
        **seen,
        **found,
    )


async def _find_absent(call: Call, visitor: SignedInUser | None, code: str) -> int | None:
    """The companion of the visitor's booking with this code, who is not offered in their own place;
    None without such a booking."""
    if visitor is None or not code:
        return None
    with suppress(NotFound):
        booking = await actions.get_by_code(call.ports, code)
        return booking.companion_id if booking.customer_id == visitor.user.id else None
    return None


async def _search(call: Call, search_query: SearchCompanions, absent: int | None) -> dict[str, Any]:
    query = search_query.to_core(call.ports.policy.currency)
    rows = await search.search(call.ports, query)
    shown = rows[: query.limit]
    place = _find_place(query.location or "", shown)
    if absent is not None:
        shown = [row for row in shown if request_body.parse_object(row)["id"] != absent]
    return {
        "found": shown,
        "place": place,
        "number": query.page,
        "first_place": (query.page - 1) * query.limit + 1,
        "has_more": len(rows) > query.limit,
        "day": query.date,
    }


def _find_place(text: str, rows: Sequence[bytes]) -> str:
    """The city or country of the first row that has it under this name, however it is written;
    without one, the text."""
    wanted = normalize_place(text)
    for row in rows if wanted else ():
        person = request_body.parse_object(row)
        for name in (person["location_city"], person["location_country"]):
            if normalize_place(name) == wanted:
                return str(name)
    return text


def _filters_query(filters: Mapping[str, str]) -> str:
    """The query string prefix of links to other pages of the same search."""
    given = urlencode({name: text for name, text in filters.items() if text})
    return f"{given}&" if given else ""


def _removable_filters(filters: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """The name, the value and the query string without it, of each filter that is given."""
    return [
        (name, filters[name], _filters_query({**filters, name: ""}).removesuffix("&"))
        for name in ("service", "location", "date", "min_price", "max_price")
        if filters[name]
    ]


# Companion ------------------------------------------------------------------------------


@get("/companions/{number:str}")
async def show_companion(request: PageRequest) -> Template | Response[bytes]:
    """Show a companion's public profile and a month of free days."""
    call = get_call(request)
    visitor = await admit_visitor(call)
    seen = await companion_context(call)
    chosen = _companion_query(call)
    bounds = seen["first"], seen["last"]
    wanted = parse_month(chosen.month) if chosen.month else chosen.date or seen["first"]
    weekday = view_of_scope(call.scope).locale.formats.first_week_day
    month = await load_month(call.ports, seen["companion"]["id"], wanted, bounds, weekday)
    service = find_offered_service(seen["services"], chosen.service or "")
    is_saved = visitor is not None and await saved.has_saved(
        call.ports, visitor.user.id, seen["companion"]["id"]
    )
    return render_public(
        call,
        visitor,
        _COMPANION_TEMPLATE,
        month=month,
        is_saved=is_saved,
        chosen_day=month.find_day(chosen.date),
        carried={"service": service, "rebooking_of": chosen.rebooking_of},
        structured=describe_companion(
            seen["companion"], absolute_url(call, call.scope["path"]), absolute_url(call, "")
        ),
        averages=_review_averages(seen["companion"]["reviews"]),
        **figures_of(call.ports.policy) | seen,
    )


async def companion_context(call: Call) -> dict[str, Any]:
    """The companion, and the first and last local dates that can be booked."""
    policy = call.ports.policy
    found = request_body.parse_object(
        await search.get_detail(call.ports, call.path_id("Companion"))
    )
    companion = found["companion"]
    now = await call.ports.clock.business()
    today = availability.local_date(companion["timezone"], now)
    return {
        "companion": companion,
        "services": companion["service_types"].split(","),
        "first": today,
        "last": NO_LIMITS.last_day(today),
        "day_hours": policy.day_rate_from_hours,
    }


_REVIEWED_QUALITIES = ("punctuality", "professionalism", "communication", "appearance")


def _review_averages(reviews: Sequence[Mapping[str, Any]]) -> dict[str, Decimal]:
    """The average of each quality that the reviews rate, to one decimal."""
    ratings = {
        name: [review[name] for review in reviews if review[name] is not None]
        for name in _REVIEWED_QUALITIES
    }
    return {
        name: (Decimal(sum(given)) / len(given)).quantize(Decimal("0.1"), ROUND_HALF_UP)
        for name, given in ratings.items()
        if given
    }


def _companion_query(call: Call) -> _CompanionQuery:
    return query_string.parse_query(_CompanionQuery, drop_empty_fields(call.scope["query_string"]))


PAGES = (show_search, show_companion)
