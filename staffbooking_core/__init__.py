"""The core of staffbooking: what the marketplace decides, with no I/O and no framework.

Embed it by making `Ports` from adapters of your choice and calling the use-cases:

    from staffbooking_core import Actor, Role
    from staffbooking_core.usecases import bookings

    booking = await bookings.accept(ports, Actor(user_id=7, role=Role.STAFF), booking_id)

`staffbooking_core.domain` has the rules as pure functions, `staffbooking_core.ports` what an
adapter must do, `staffbooking_core.errors` everything that is raised on purpose.
"""

from staffbooking_core import errors
from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Ports

__version__ = "0.1.0"

__all__ = [
    "Actor",
    "Policy",
    "Ports",
    "Role",
    "__version__",
    "domain",
    "errors",
    "inputs",
    "policy",
    "ports",
    "representations",
    "usecases",
    "webhook_receiver",
]
