"""The table of all endpoints, one module for each family."""

from types import ModuleType

from staffbooking_http.api.endpoint import Endpoint
from staffbooking_http.routes import (
    accounts,
    admin_money,
    administration,
    auth,
    bookings,
    calendars,
    channel,
    companions,
    disputes,
    images,
    keys,
    messages,
    operations,
    payees,
    payments,
    reviews,
    sandbox,
    staff,
    webhooks,
)


def _endpoints_of(module: ModuleType) -> tuple[Endpoint, ...]:
    return tuple(value for value in vars(module).values() if isinstance(value, Endpoint))


ENDPOINTS_BY_TAG: dict[str, tuple[Endpoint, ...]] = {
    "Companions": _endpoints_of(companions),
    "Bookings": _endpoints_of(bookings),
    "Disputes": _endpoints_of(disputes),
    "Reviews": _endpoints_of(reviews),
    "Messages": _endpoints_of(messages),
    "Channel": _endpoints_of(channel),
    "Webhooks": _endpoints_of(webhooks),
    "API keys": _endpoints_of(keys),
    "Accounts": (*_endpoints_of(auth), *_endpoints_of(accounts)),
    "Staff": _endpoints_of(staff),
    "Images": _endpoints_of(images),
    "Calendars": _endpoints_of(calendars),
    "Payout accounts": _endpoints_of(payees),
    "Processor": _endpoints_of(payments),
    "Administration": (*_endpoints_of(administration), *_endpoints_of(admin_money)),
    "Operations": _endpoints_of(operations),
}

SANDBOX_ENDPOINTS_BY_TAG: dict[str, tuple[Endpoint, ...]] = {"Sandbox": _endpoints_of(sandbox)}
"""Endpoints that exist only where payments are simulated."""
