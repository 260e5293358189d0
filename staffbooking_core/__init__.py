"""The core of staffbooking: the rules of the marketplace, without I/O and without a framework.

Open `Ports` (`staffbooking_adapters` has complete ones) and call the use-cases:

    from staffbooking_core import Actor, Role, run_all_due
    from staffbooking_core.usecases.bookings import actions

    booking = await actions.accept(ports, Actor(user_id=7, role=Role.STAFF), booking_id)
    await run_all_due(ports)

`run_all_due` is `usecases.due_work.run_all_due`, imported on first use.

`staffbooking_core.domain` holds the rules as pure functions, `staffbooking_core.ports` the
interfaces that adapters implement, `staffbooking_core.errors` the errors of the core.
"""

from typing import TYPE_CHECKING, Any

from staffbooking_core import errors
from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Ports

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    if name != "run_all_due":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from staffbooking_core.usecases import due_work

    return due_work.run_all_due
