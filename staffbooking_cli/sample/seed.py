"""The sample marketplace into an empty database, and what a visitor needs of it."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from staffbooking_adapters.inputs import structure
from staffbooking_cli.errors import Refused
from staffbooking_cli.sample.market import PASSWORD, STAFF_EMAIL, companions
from staffbooking_core.domain.accounts.api_keys import Permission, digest, is_well_formed
from staffbooking_core.domain.accounts.users import Role, Subscription, User
from staffbooking_core.errors import NotFound
from staffbooking_core.inputs import CreateKey, ImportedCompanion
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.accounts import administration, api_keys
from staffbooking_core.usecases.accounts.administration import CreateUser
from staffbooking_core.usecases.companions import imports

DOMAIN = "@demo.test"
CUSTOMER_EMAIL = "customer@demo.test"
ENTERPRISE_EMAIL = "enterprise@demo.test"
ADMIN_EMAIL = "admin@demo.test"
KEY_NAME = "Demo"
KEY_FILE = "api-key"


@frozen
class Sample:
    """What the printed lines speak of."""

    key: str
    staff: User


async def is_missing(ports: Ports) -> bool:
    """Whether the sample is still to be put in, or was only in part: the admin, who comes
    last, says that all are there. Raises Refused where the database is somebody else's."""
    first = await administration.users(ports, limit=1)
    if first and not first[0].email.endswith(DOMAIN):
        raise Refused("the database holds data that is not the demo's: give the demo its own")
    return await _known(ports, ADMIN_EMAIL) is None


async def fill(ports: Ports) -> None:
    """Put the sample in; what an interrupted start left behind is gone on with."""
    today = (await ports.clock.business()).date()
    staff = [structure(ImportedCompanion, row) for row in companions(today)]
    await imports.import_companions(ports, staff)
    for person in _people():
        if not await _known(ports, person.email):
            await administration.create_user(ports, person)


def _people() -> tuple[CreateUser, ...]:
    """Those who sign in besides staff, the admin last."""
    return (
        _person(CUSTOMER_EMAIL, "Clara", "Winter", Role.CUSTOMER),
        _person("second.customer@demo.test", "Marcus", "Bell", Role.CUSTOMER),
        _person(ENTERPRISE_EMAIL, "Grand", "Events", Role.CUSTOMER, Subscription.ENTERPRISE),
        _person(ADMIN_EMAIL, "Ada", "Keeper", Role.ADMIN),
    )


def _person(
    email: str, first: str, last: str, role: Role, tier: Subscription = Subscription.NONE
) -> CreateUser:
    return CreateUser(
        email=email,
        first_name=first,
        last_name=last,
        role=role,
        password=PASSWORD,
        subscription=tier,
    )


async def _known(ports: Ports, email: str) -> User | None:
    try:
        return await administration.user(ports, email)
    except NotFound:
        return None


async def sample(ports: Ports, folder: Path) -> Sample:
    """The demo's key and its first staff member."""
    owner = await administration.user(ports, ENTERPRISE_EMAIL)
    key = await _kept_key(ports, owner, folder / KEY_FILE)
    return Sample(key, await administration.user(ports, STAFF_EMAIL))


async def _kept_key(ports: Ports, owner: User, path: Path) -> str:
    """The key that the folder keeps for the next start; a new one where it doesn't work
    here (another database, a lost folder)."""
    kept = _read(path)
    now = ports.clock.wall()
    active = [key for key in await api_keys.listing(ports, owner) if key.is_active(now)]
    if is_well_formed(kept) and any(key.digest == digest(kept) for key in active):
        return kept
    for key in active:
        if key.name == KEY_NAME:
            await api_keys.revoke(ports, owner, key.id)
    wanted = CreateKey(name=KEY_NAME, permissions=(Permission.READ, Permission.BOOK))
    made, _ = await api_keys.create(ports, owner, wanted)
    _write(path, made)
    return made


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace").strip() if path.exists() else ""


def _write(path: Path, key: str) -> None:
    path.touch(mode=0o600)
    path.write_text(key + "\n", encoding="utf-8")
