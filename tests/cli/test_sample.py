"""The sample marketplace of `staffbooking demo`."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import anyio
import pytest

from staffbooking_adapters.inputs import structure
from staffbooking_adapters.testing.builders import add_user
from staffbooking_cli.errors import CommandRefused
from staffbooking_cli.sample import guide, seed
from staffbooking_cli.sample.cast import (
    ADMIN_EMAIL,
    CUSTOMER_EMAIL,
    ENTERPRISE_EMAIL,
    SECOND_CUSTOMER_EMAIL,
)
from staffbooking_cli.sample.market import KNOWN_STAFF, STAFF_EMAIL, sample_companions
from staffbooking_core.domain.companions.companion import Approval, CompanionQuery
from staffbooking_core.inputs import ImportedCompanion
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Ports
from staffbooking_core.usecases import sandbox
from staffbooking_core.usecases.accounts import administration, api_keys
from staffbooking_core.usecases.companions import imports, search as finding
from tests.cli.deployment import make_cli_ports

pytestmark = pytest.mark.anyio

TODAY = date(2027, 3, 1)
PEOPLE = sample_companions(TODAY)
ROWS = [person.row for person in PEOPLE]


@pytest.fixture
def ports() -> Ports:
    return make_cli_ports(Policy())


@pytest.fixture(scope="module")
def filled() -> Ports:
    """A filled database: its tests don't change the sample."""
    ports = make_cli_ports(Policy())
    anyio.run(seed.fill_database, ports)
    return ports


def test_the_market_is_large() -> None:
    """The sample has hundreds of distinct people in many cities and zones."""
    assert len(ROWS) >= 300
    assert len({row["location_city"] for row in ROWS}) >= 30
    assert len({row["timezone"] for row in ROWS}) >= 15
    assert len({row["email"] for row in ROWS}) == len(ROWS)


def test_the_market_is_the_same_each_time() -> None:
    """Two runs on one day give the same rows; on another day only the days off differ."""
    assert sample_companions(TODAY) == PEOPLE
    later = [person.row for person in sample_companions(date(2027, 4, 1))]
    assert [row | {"overrides": []} for row in later] == [row | {"overrides": []} for row in ROWS]


async def test_one_account_of_each_kind_is_open_to_everybody(filled: Ports) -> None:
    """Whoever tries the demo signs in as a customer, a second one, a staff member, a subscriber or
    an admin; the others of the sample are not open."""
    accounts = await sandbox.list_sample_accounts(filled)
    assert {user.email for user in accounts} == {
        CUSTOMER_EMAIL,
        SECOND_CUSTOMER_EMAIL,
        STAFF_EMAIL,
        ENTERPRISE_EMAIL,
        ADMIN_EMAIL,
    }


async def test_an_older_sample_opens_no_account_of_a_stranger(ports: Ports) -> None:
    """The accounts of a sample that was made by an earlier version are opened, except those that
    came after its admin."""
    for email in (CUSTOMER_EMAIL, ADMIN_EMAIL, STAFF_EMAIL):
        await add_user(ports.store, email=email)
    for _ in range(2):
        await seed.open_accounts_of_older_samples(ports)
        opened = await sandbox.list_sample_accounts(ports)
        assert [user.email for user in opened] == [CUSTOMER_EMAIL, ADMIN_EMAIL]


async def test_the_past_leaves_no_mails(filled: Ports) -> None:
    """Mails of the sample's past are not kept: nobody sent them."""
    async with filled.store.read_view() as view:
        assert not await view.sandbox.sent_mails(1)


async def test_every_row_is_good(ports: Ports) -> None:
    """No row of the sample is skipped."""
    staff = [structure(ImportedCompanion, row) for row in ROWS]
    counts = await imports.import_companions(ports, staff)
    assert (counts.imported, counts.refused) == (len(ROWS), ())


async def test_most_are_found_and_some_wait(filled: Ports) -> None:
    """A few companions are pending approval; the known staff are approved."""
    found = await administration.list_companions(filled, limit=1000)
    waiting = [one for one in found if one.approval is Approval.PENDING]
    assert 5 <= len(waiting) <= len(found) / 5
    for email in KNOWN_STAFF.values():
        assert (await administration.get_user(filled, email)).id not in {one.id for one in waiting}


async def test_it_is_filled_once(filled: Ports) -> None:
    """A second start changes nothing."""
    assert not await seed.is_sample_missing(filled)


async def test_an_interrupted_start_is_completed(ports: Ports) -> None:
    """A second start completes the sample of an interrupted one."""
    await imports.import_companions(ports, [structure(ImportedCompanion, ROWS[0])])
    assert await seed.is_sample_missing(ports)
    await seed.fill_database(ports)
    assert not await seed.is_sample_missing(ports)
    assert len(await administration.list_companions(ports, limit=1000)) == len(ROWS)


async def test_a_database_with_other_data_is_refused(ports: Ports) -> None:
    """The demo refuses a database with other data."""
    await add_user(ports.store)
    with pytest.raises(CommandRefused, match="not the demo's"):
        await seed.is_sample_missing(ports)


async def test_the_key_is_kept(filled: Ports, tmp_path: Path) -> None:
    """The second start prints the same key, which only the file's owner can read."""
    first = await seed.load_sample(filled, tmp_path)
    assert await seed.load_sample(filled, tmp_path) == first
    assert (tmp_path / seed.KEY_FILE).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("kept", ["", "garbage", "ps_" + "0" * 65])
async def test_a_lost_key_is_replaced(filled: Ports, tmp_path: Path, kept: str) -> None:
    """A key that is unknown to the database is replaced, and at most one is active."""
    for _ in range(7):
        made = await seed.load_sample(filled, tmp_path)
        (tmp_path / seed.KEY_FILE).write_text(kept)
    owner = await administration.get_user(filled, ENTERPRISE_EMAIL)
    active = [one for one in await api_keys.list_keys(filled, owner) if one.revoked_at is None]
    assert len(active) == 1
    assert made.key.endswith(active[0].masked_key[-4:])


async def test_the_lines_search_for_somebody(filled: Ports) -> None:
    """The printed search has results."""
    query = CompanionQuery(location="lisbon", service="bartender", limit=3)
    assert await finding.search(filled, query)


async def test_the_lines_book_free_evenings(filled: Ports, tmp_path: Path) -> None:
    """Both evenings are free, in order, and about two weeks ahead in business time."""
    given = await seed.load_sample(filled, tmp_path)
    first, second = await guide.find_free_evenings(filled, given.staff.id)
    ahead = first.starts_at - datetime.now(UTC)
    assert 13 <= ahead.days <= 16
    assert first.ends_at < second.starts_at
    text = await guide.render_guide(filled, given, "http://127.0.0.1:8000", tmp_path)
    assert first.day.isoformat() in text
    assert second.day.isoformat() in text
