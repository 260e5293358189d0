"""The core of staffbooking: the rules of the marketplace, without I/O and without a framework.

Open `Ports` (`staffbooking_adapters` has complete ones) and call the use-cases:

    from staffbooking_core import Actor, Role, run_all_due
    from staffbooking_core.usecases.bookings import actions

    booking = await actions.accept(ports, Actor(user_id=7, role=Role.STAFF), booking_id)
    await run_all_due(ports)

`run_all_due` is `usecases.due_work.run_all_due`.

`staffbooking_core.domain` holds the rules as pure functions, `staffbooking_core.ports` the
interfaces that adapters implement, `staffbooking_core.errors` the errors of the core.

All of it is imported on first use: the kit for webhooks and the HTTP client need nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from staffbooking_core import errors
    from staffbooking_core.domain.accounts.users import Actor, Role
    from staffbooking_core.policy import Policy
    from staffbooking_core.ports import Ports
    from staffbooking_core.usecases.due_work import run_all_due

__version__ = "0.1.0"

__all__ = [
    "Actor",
    "Policy",
    "Ports",
    "Role",
    "__version__",
    "bounds",
    "domain",
    "errors",
    "inputs",
    "operator_inputs",
    "policy",
    "ports",
    "representations",
    "request_context",
    "run_all_due",
    "usecases",
    "validation",
    "value_checks",
    "webhook_receiver",
]

_HOME_BY_NAME = {
    "Actor": "domain.accounts.users",
    "Policy": "policy",
    "Ports": "ports",
    "Role": "domain.accounts.users",
    "run_all_due": "usecases.due_work",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = import_module(f"{__name__}.{_HOME_BY_NAME.get(name, name)}")
    return getattr(home, name) if name in _HOME_BY_NAME else home
