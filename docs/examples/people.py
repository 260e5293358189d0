"""The people of the examples: a customer, Grace, and a companion, Ada."""

from decimal import Decimal

from staffbooking_core import Actor, NotFound, Ports, Role, inputs
from staffbooking_core.usecases.accounts import administration, sessions
from staffbooking_core.usecases.companions import imports

CUSTOMER, STAFF = "grace@example.com", "ada@example.com"


async def add_people(ports: Ports) -> None:
    """Add both, unless an earlier start has."""
    try:
        await administration.get_user(ports, CUSTOMER)
    except NotFound:
        grace = inputs.Register(
            email=CUSTOMER,
            password="correct horse battery",
            first_name="Grace",
            last_name="Hopper",
            role=inputs.RegistrationRole.CUSTOMER,
        )
        await sessions.register_user(ports, grace)
    ada = inputs.ImportedCompanion(
        email=STAFF,
        first_name="Ada",
        last_name="Byron",
        hourly_rate=Decimal("40.00"),
        location_city="London",
        location_country="United Kingdom",
        timezone="Europe/London",
        service_types=("Bartender",),
        approved=True,
    )
    await imports.import_companions(ports, [ada])


async def find_actor(ports: Ports, email: str) -> Actor:
    """Who acts: the user of an e-mail address. Raises NotFound."""
    user = await administration.get_user(ports, email)
    return Actor(user.id, Role(user.role))
