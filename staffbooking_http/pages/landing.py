"""The page that signed-out visitors start from."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from attrs import frozen
from litestar import Response
from litestar.response import Template

from staffbooking_core.domain.companions import booking_limits
from staffbooking_core.domain.companions.companion import CompanionQuery
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.companions import search
from staffbooking_http.api import request_body
from staffbooking_http.api.endpoint import Call
from staffbooking_http.pages.public import render_public
from staffbooking_http.pages.terms import figures_of

_TOP_COMPANIONS = 8
_TOP_SERVICES = 12
_TOP_CITIES = 12
_NAMES_PERIOD = timedelta(minutes=1)
_COUNTS_PERIOD = timedelta(minutes=5)


@frozen
class Market:
    """What is on offer: services and cities with the number of listed companions, most first."""

    services: Sequence[tuple[str, int]] = ()
    cities: Sequence[tuple[str, str, int]] = ()


class MarketCache:
    """Caches the names of services and the counts of the market, for all visitors."""

    __slots__ = ("_counted_at", "_market", "_named_at", "_names")

    def __init__(self) -> None:
        self._counted_at: datetime | None = None
        self._market = Market()
        self._named_at: datetime | None = None
        self._names: Sequence[str] = ()

    async def get_service_names(self, ports: Ports) -> Sequence[str]:
        """The names of the offered services, at most a minute old; the former ones where the store
        is too slow for new ones."""
        now = ports.clock.wall()
        if self._named_at is None or abs(now - self._named_at) >= _NAMES_PERIOD:
            with suppress(StoreUnavailable):
                self._names = await search.list_service_names(ports)
            self._named_at = now
        return self._names

    async def get_market(self, ports: Ports) -> Market:
        """The counts, which read all listed companions, at most some minutes old; the former ones
        where the store is too slow for new ones."""
        now = ports.clock.wall()
        if self._counted_at is None or abs(now - self._counted_at) >= _COUNTS_PERIOD:
            self._counted_at = now  # Others get the former counts until these are there.
            with suppress(StoreUnavailable):
                self._market = await _count_market(ports)
        return self._market


async def _count_market(ports: Ports) -> Market:
    services = await search.count_service_types(ports)
    most_offered = sorted(services, key=lambda service: -service[1])
    return Market(most_offered[:_TOP_SERVICES], await search.count_cities(ports, _TOP_CITIES))


async def show_landing(call: Call, market_cache: MarketCache) -> Template | Response[bytes]:
    """Show what the service is for: the search, services, cities and the best rated people."""
    ports = call.ports
    found = await search.search(ports, CompanionQuery(limit=_TOP_COMPANIONS))
    best = found[:_TOP_COMPANIONS]
    return render_public(
        call,
        None,
        "home.html",
        best=best,
        companions=[request_body.parse_object(row) for row in best],
        services=await market_cache.get_service_names(ports),
        market=await market_cache.get_market(ports),
        first=booking_limits.earliest_today(await ports.clock.business()),
        **figures_of(ports.policy),
    )
