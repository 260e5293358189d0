"""Fills an empty database with the sample marketplace and loads the demo's key and staff."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from staffbooking_adapters.inputs import structure
from staffbooking_cli.errors import CommandRefused
from staffbooking_cli.sample.market import PASSWORD, STAFF_EMAIL, sample_companions
from staffbooking_core.domain.accounts.api_keys import (
    Permission,
    digest_api_key,
    is_well_formed_api_key,
)
from staffbooking_core.domain.accounts.users import Role, Subscription, User
from staffbooking_core.errors import NotFound
from staffbooking_core.inputs import CreateApiKey, ImportedCompanion
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.accounts import administration, api_keys
from staffbooking_core.usecases.accounts.administration import CreateUser
from staffbooking_core.usecases.companions import imports

_EMAIL_DOMAIN = "@demo.test"
CUSTOMER_EMAIL = "customer@demo.test"
ENTERPRISE_EMAIL = "enterprise@demo.test"
ADMIN_EMAIL = "admin@demo.test"
_KEY_NAME = "Demo"
KEY_FILE = "api-key"


@frozen
class DemoSample:
    """The API key and the staff member that the printed commands use."""

    key: str
    staff: User


async def is_sample_missing(ports: Ports) -> bool:
    """Whether the sample is missing or incomplete: the admin is created last.

    Raises CommandRefused if the database holds other data.
    """
    first = await administration.list_users(ports, limit=1)
    if first and not first[0].email.endswith(_EMAIL_DOMAIN):
        raise CommandRefused(
            "the database holds data that is not the demo's: use a separate database"
        )
    return await _find_user(ports, ADMIN_EMAIL) is None


async def fill_database(ports: Ports) -> None:
    """Insert the sample, or complete one that an interrupted start left."""
    today = (await ports.clock.business()).date()
    staff = [structure(ImportedCompanion, row) for row in sample_companions(today)]
    await imports.import_companions(ports, staff)
    for person in _sign_in_users():
        if not await _find_user(ports, person.email):
            await administration.create_user(ports, person)


def _sign_in_users() -> tuple[CreateUser, ...]:
    """The accounts that are not staff, the admin last."""
    return (
        _create_user_command(CUSTOMER_EMAIL, "Clara", "Winter", Role.CUSTOMER),
        _create_user_command("second.customer@demo.test", "Marcus", "Bell", Role.CUSTOMER),
        _create_user_command(
            ENTERPRISE_EMAIL, "Grand", "Events", Role.CUSTOMER, Subscription.ENTERPRISE
        ),
        _create_user_command(ADMIN_EMAIL, "Ada", "Keeper", Role.ADMIN),
    )


def _create_user_command(
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


async def _find_user(ports: Ports, email: str) -> User | None:
    try:
        return await administration.get_user(ports, email)
    except NotFound:
        return None


async def load_sample(ports: Ports, folder: Path) -> DemoSample:
    """Load the demo's API key and its first staff member."""
    owner = await administration.get_user(ports, ENTERPRISE_EMAIL)
    key = await _get_api_key(ports, owner, folder / KEY_FILE)
    return DemoSample(key, await administration.get_user(ports, STAFF_EMAIL))


async def _get_api_key(ports: Ports, owner: User, path: Path) -> str:
    """The key stored in the folder; a new one if it is missing or not active in this
    database."""
    stored_key = _read_key(path)
    now = ports.clock.wall()
    active = [key for key in await api_keys.list_keys(ports, owner) if key.is_active(now)]
    if is_well_formed_api_key(stored_key) and any(
        key.digest == digest_api_key(stored_key) for key in active
    ):
        return stored_key
    for key in active:
        if key.name == _KEY_NAME:
            await api_keys.revoke(ports, owner, key.id)
    command = CreateApiKey(name=_KEY_NAME, permissions=(Permission.READ, Permission.BOOK))
    new_key, _ = await api_keys.create(ports, owner, command)
    _write_key(path, new_key)
    return new_key


def _read_key(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace").strip() if path.exists() else ""


def _write_key(path: Path, key: str) -> None:
    path.touch(mode=0o600)
    path.write_text(key + "\n", encoding="utf-8")
