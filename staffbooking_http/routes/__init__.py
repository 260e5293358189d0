"""The table: every endpoint of the interface, one module a family."""

from types import ModuleType

from staffbooking_http.api.endpoint import Endpoint
from staffbooking_http.routes import (
    accounts,
    auth,
    bookings,
    calendars,
    channel,
    companions,
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


def _declared(module: ModuleType) -> tuple[Endpoint, ...]:
    return tuple(value for value in vars(module).values() if isinstance(value, Endpoint))


FAMILIES: dict[str, tuple[Endpoint, ...]] = {
    "Companions": _declared(companions),
    "Bookings": _declared(bookings),
    "Reviews": _declared(reviews),
    "Messages": _declared(messages),
    "Channel": _declared(channel),
    "Webhooks": _declared(webhooks),
    "API keys": _declared(keys),
    "Accounts": (*_declared(auth), *_declared(accounts)),
    "Staff": _declared(staff),
    "Images": _declared(images),
    "Calendars": _declared(calendars),
    "Payout accounts": _declared(payees),
    "Processor": _declared(payments),
    "Operations": _declared(operations),
}

SANDBOX: dict[str, tuple[Endpoint, ...]] = {"Sandbox": _declared(sandbox)}
"""Only there where payments are pretended."""
