"""Fills an empty database with the sample marketplace and loads the demo's key and staff."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import anyio
from attrs import frozen

from staffbooking_adapters.inputs import structure
from staffbooking_cli.errors import CommandRefused
from staffbooking_cli.sample import companions, history, pictures
from staffbooking_cli.sample.actions import Person, SampleActions, StaffMember
from staffbooking_cli.sample.companions import PASSWORD, STAFF_EMAIL, SamplePerson
from staffbooking_cli.sample.participants import (
    ADMIN_EMAIL,
    ADMIN_NAME,
    CUSTOMER_EMAIL,
    ENTERPRISE_EMAIL,
    GUESTS,
    SECOND_CUSTOMER_EMAIL,
    Participants,
)
from staffbooking_cli.sample.scenario_context import ScenarioContext
from staffbooking_cli.sample.scenario_runner import return_to_present, run_scenarios, set_clock_back
from staffbooking_cli.sample.scenarios import all_scenarios
from staffbooking_core.domain.accounts.api_keys import (
    Permission,
    digest_api_key,
    is_well_formed_api_key,
)
from staffbooking_core.domain.accounts.users import Role, Subscription, User
from staffbooking_core.errors import NotFound
from staffbooking_core.inputs import CreateApiKey, ImportedCompanion, SubmitInquiry
from staffbooking_core.ports import Ports
from staffbooking_core.usecases import sandbox
from staffbooking_core.usecases.accounts import administration, api_keys
from staffbooking_core.usecases.accounts.administration import CreateUser
from staffbooking_core.usecases.bookings import overview
from staffbooking_core.usecases.companions import imports
from staffbooking_core.usecases.notifications import inquiries

_EMAIL_DOMAIN = "@demo.test"
_KEY_NAME = "Demo"
KEY_FILE = "api-key"

_JOINING_DAYS_AGO = (500, 440, 380, 320, 260)
"""The days on which people join, an equal part of them each time."""
_REVIEWED_OTHERS = 13
_PORTFOLIO_OTHERS = 6
_UPLOADERS = 3
_OPEN_ACCOUNTS = (CUSTOMER_EMAIL, SECOND_CUSTOMER_EMAIL, ENTERPRISE_EMAIL, STAFF_EMAIL)
"""Besides the admin, whose account is created last."""
_INQUIRIES = (
    (
        "Rosa Lind",
        "rosa@example.com",
        "Staff for a trade fair",
        "We need twelve hosts for three days in May. Can one order be for several people?",
    ),
    (
        "Ben Okoro",
        "ben@example.com",
        "Invoices",
        "Our accounting needs the tax number on the receipt. Where can I enter it?",
    ),
)
"""Name, e-mail address, subject and text."""


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
    """Insert the sample: people, then their bookings until today. If an earlier start was
    interrupted, only missing people are added: the scenarios do not run twice."""
    now = ports.clock.wall()
    people = companions.sample_companions(now.date())
    if await overview.list_all_bookings(ports, limit=1):
        await _import_people(ports, people)
        await _create_customers(ports)
    else:
        await _simulate_past(ports, now, people)
    await return_to_present(ports)
    await _open_accounts(ports, _OPEN_ACCOUNTS)
    await _create_missing_user(ports, ADMIN_EMAIL, *ADMIN_NAME, role=Role.ADMIN)
    await _open_accounts(ports, (ADMIN_EMAIL,))


async def _open_accounts(ports: Ports, emails: Sequence[str]) -> None:
    """Let visitors of the demo sign in to these accounts with one click."""
    for email in emails:
        user = await administration.get_user(ports, email)
        await sandbox.mark_sample_account(ports, user.id)


async def open_accounts_of_older_samples(ports: Ports) -> None:
    """Open the accounts of a sample that was made before accounts could be open. The admin was
    created last, so accounts with higher ids are those of strangers."""
    if await sandbox.list_sample_accounts(ports):
        return
    admin = await administration.get_user(ports, ADMIN_EMAIL)
    for email in (*_OPEN_ACCOUNTS, ADMIN_EMAIL):
        user = await _find_user(ports, email)
        if user is not None and user.id <= admin.id:
            await sandbox.mark_sample_account(ports, user.id)


async def _simulate_past(ports: Ports, now: datetime, people: Sequence[SamplePerson]) -> None:
    """Let everybody join in the past, and run all scenarios until the present."""
    for batch, days_ago in enumerate(_JOINING_DAYS_AGO):
        await set_clock_back(ports, now - timedelta(days=days_ago))
        await _import_people(ports, people[batch :: len(_JOINING_DAYS_AGO)])
    await _create_customers(ports)
    participants = await _find_participants(ports, people)
    await _add_pictures(ports, people, participants)
    actions = SampleActions(ports)
    past = history.plan_past_bookings(
        [
            (participants.staff, 8),
            *((member, 3) for member in participants.colleagues),
            *((member, 2) for member in participants.others[:_REVIEWED_OTHERS]),
        ],
        (*participants.guests, participants.second_customer),
    )
    scenarios = [history.past_booking_scenario(actions, now, plan) for plan in past]
    await run_scenarios(
        ports, [*scenarios, *all_scenarios(ScenarioContext(actions, now), participants)], now
    )
    await _send_inquiries(ports)


async def _import_people(ports: Ports, people: Sequence[SamplePerson]) -> None:
    rows = [structure(ImportedCompanion, person.row) for person in people]
    await imports.import_companions(ports, rows)


async def _create_customers(ports: Ports) -> None:
    """Create the accounts that are neither staff nor admin."""
    await _create_missing_user(ports, CUSTOMER_EMAIL, "Clara", "Winter")
    await _create_missing_user(ports, SECOND_CUSTOMER_EMAIL, "Marcus", "Bell")
    await _create_missing_user(
        ports, ENTERPRISE_EMAIL, "Grand", "Events", subscription=Subscription.ENTERPRISE
    )
    for email, first, last in GUESTS:
        await _create_missing_user(ports, email, first, last, password=None)


async def _create_missing_user(
    ports: Ports,
    email: str,
    first: str,
    last: str,
    role: Role = Role.CUSTOMER,
    subscription: Subscription = Subscription.NONE,
    password: str | None = PASSWORD,
) -> None:
    if not await _find_user(ports, email):
        command = CreateUser(
            email=email,
            first_name=first,
            last_name=last,
            role=role,
            password=password,
            subscription=subscription,
        )
        await administration.create_user(ports, command)


async def _find_participants(ports: Ports, people: Sequence[SamplePerson]) -> Participants:
    featured = [person for person in people if person.is_featured]
    members = [await _staff_member(ports, person) for person in featured]
    [staff] = [member for member in members if member.email == STAFF_EMAIL]
    # The others are mixed, so that neighbours in the order work in different cities.
    places = [member.city for member in members]
    order = sorted(range(len(members)), key=lambda index: places[:index].count(places[index]))
    mixed = [members[index] for index in order if members[index] is not staff]
    return Participants(
        customer=await _customer(ports, CUSTOMER_EMAIL),
        second_customer=await _customer(ports, SECOND_CUSTOMER_EMAIL),
        enterprise=await _customer(ports, ENTERPRISE_EMAIL),
        guests=tuple([await _customer(ports, email) for email, _, _ in GUESTS]),
        staff=staff,
        colleagues=tuple(member for member in mixed if member.city == staff.city),
        others=tuple(member for member in mixed if member.city != staff.city),
    )


async def _staff_member(ports: Ports, person: SamplePerson) -> StaffMember:
    user = await administration.get_user(ports, person.email)
    row = person.row
    city, timezone, services = row["location_city"], row["timezone"], row["service_types"]
    return StaffMember(user.id, user.role, user.email, city, timezone, tuple(services))


async def _customer(ports: Ports, email: str) -> Person:
    user = await administration.get_user(ports, email)
    return Person(user.id, user.role, user.email)


async def _add_pictures(
    ports: Ports, people: Sequence[SamplePerson], participants: Participants
) -> None:
    """Add portraits to all and portfolios to some. A few people upload at a time: while one picture
    is drawn, another is encoded and a third is written to the disk."""
    known = {person.email: person for person in people}
    portfolios = {
        participants.staff: (4, 1),
        **dict.fromkeys(
            (*participants.colleagues, *participants.others[:_PORTFOLIO_OTHERS]), (2, 0)
        ),
        **dict.fromkeys(participants.others[_PORTFOLIO_OTHERS : _PORTFOLIO_OTHERS + 2], (0, 1)),
    }
    limiter = anyio.CapacityLimiter(_UPLOADERS)

    async def add(member: StaffMember) -> None:
        async with limiter:
            person = known[member.email]
            await pictures.add_portrait(ports, member.actor, person)
            await pictures.add_portfolio(
                ports, member.actor, person, *portfolios.get(member, (0, 0))
            )

    async with anyio.create_task_group() as group:
        for member in (participants.staff, *participants.colleagues, *participants.others):
            group.start_soon(add, member)


async def _send_inquiries(ports: Ports) -> None:
    for name, email, subject, message in _INQUIRIES:
        command = SubmitInquiry(name=name, email=email, subject=subject, message=message)
        await inquiries.submit_inquiry(ports, command)


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
