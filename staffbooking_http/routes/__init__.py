"""The table: every endpoint of the interface, one module a family."""

from types import ModuleType

from staffbooking_http.endpoint import Endpoint
from staffbooking_http.routes import (
    auth,
    bookings,
    channel,
    companions,
    keys,
    messages,
    operations,
    payees,
    payments,
    reviews,
    sandbox,
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
    "Accounts": _declared(auth),
    "Payout accounts": _declared(payees),
    "Processor": _declared(payments),
    "Operations": _declared(operations),
}

SANDBOX: dict[str, tuple[Endpoint, ...]] = {"Sandbox": _declared(sandbox)}
"""Only there where payments are pretended."""
