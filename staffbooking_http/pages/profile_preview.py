"""The public page of a profile that is not public yet, as customers will see it."""

from datetime import date
from functools import partial
from typing import Annotated, TypeAlias

from attrs import frozen
from litestar import get
from litestar.response import Redirect, Template

from staffbooking_core.bounds import AllowedCharacters, TextBounds
from staffbooking_core.domain.companions import availability
from staffbooking_core.domain.companions.booking_limits import NO_LIMITS
from staffbooking_core.domain.companions.companion import missing_fields
from staffbooking_core.representations.companions import companion_detail
from staffbooking_core.usecases.companions import profiles
from staffbooking_http.api import query_string
from staffbooking_http.pages.free_days import build_month, parse_month
from staffbooking_http.pages.public import absolute_url
from staffbooking_http.pages.rendering import view_of_scope
from staffbooking_http.pages.session import (
    PageRequest,
    drop_empty_fields,
    get_call,
    render,
    require_staff_member,
)
from staffbooking_http.pages.structured_data import describe_companion
from staffbooking_http.pages.terms import figures_of

_PATH = "/staff/me/preview"
_OptionalDate: TypeAlias = date | None


@frozen(kw_only=True)
class _PreviewQuery:
    """The chosen day, and the month to show."""

    date: _OptionalDate = None
    month: Annotated[str, TextBounds(7, characters=AllowedCharacters.OPAQUE)] | None = None


@get(_PATH)
async def preview_profile(request: PageRequest) -> Template | Redirect:
    """Show the page of a profile that is not public yet; one that is, is led to, and so is the form
    of one that lacks what customers see."""
    call = get_call(request)
    visitor = await require_staff_member(call)
    query = query_string.parse_query(_PreviewQuery, drop_empty_fields(call.scope["query_string"]))
    companion = await profiles.get_profile(call.ports, visitor.actor)
    if companion.is_listed:
        return Redirect(f"/companions/{companion.id}", status_code=303)
    if missing_fields(companion):
        return Redirect("/staff/me", status_code=303)
    policy, now = call.ports.policy, await call.ports.clock.business()
    items = await profiles.list_portfolio_items(call.ports, visitor.actor)
    detail = companion_detail(companion, policy.currency, (), items)["companion"]
    today = availability.local_date(companion.calendar.timezone, now)
    bounds = today, NO_LIMITS.last_day(today)
    weekday = view_of_scope(call.scope).locale.formats.first_week_day
    read = partial(profiles.preview_availability, call.ports, companion)
    wanted = parse_month(query.month) if query.month else query.date or today
    month = await build_month(read, wanted, bounds, weekday)
    return render(
        "companion.html",
        visitor,
        is_preview=True,
        companion=detail,
        services=companion.service_types,
        first=bounds[0],
        last=bounds[1],
        month=month,
        chosen_day=month.find_day(query.date),
        carried={},
        structured=describe_companion(detail, absolute_url(call, _PATH), absolute_url(call, "")),
        averages={},
        origin=absolute_url(call, ""),
        **figures_of(policy),
    )


PAGES = (preview_profile,)
