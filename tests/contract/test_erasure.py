"""Erasure leaves no personal data in any store, except in the tables named here."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import asdict, evolve, fields, has
from sqlalchemy import text

from staffbooking_adapters.memory.files import MemoryFiles
from staffbooking_adapters.memory.state import MemoryState, Table as Rows
from staffbooking_adapters.memory.store import MemoryStore
from staffbooking_adapters.sql.engine.open import Statement
from staffbooking_adapters.sql.schema.metadata import metadata
from staffbooking_adapters.sql.store import SqlStore
from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    NOW,
    add_api_key,
    add_companion,
    add_user,
    make_audit_entry,
    make_payee,
)
from staffbooking_adapters.testing.builders_portfolio import add_portfolio_item
from staffbooking_adapters.testing.builders_webhooks import add_delivery, add_endpoint
from staffbooking_adapters.testing.store import OpenStore
from staffbooking_core.domain.accounts.audit import BOOKING_SUBJECTS, AuditSubject
from staffbooking_core.domain.accounts.users import Actor, User
from staffbooking_core.inputs import (
    AddDisputeStatement,
    DisputeBooking,
    RespondToReview,
    SubmitInquiry,
    SubmitReview,
)
from staffbooking_core.operator_inputs import ResolutionOutcome
from staffbooking_core.ports import ImportProgress, Ports, SkippedRow, Transaction
from staffbooking_core.representations.messaging import conversation_record
from staffbooking_core.usecases import privacy
from staffbooking_core.usecases.bookings import dispute_files, disputes
from staffbooking_core.usecases.companions import reviews
from staffbooking_core.usecases.messaging import messages
from staffbooking_core.usecases.notifications import inquiries
from staffbooking_core.usecases.webhooks import endpoints
from tests.support.memory_deployment import (
    BookingScenario,
    actor_of,
    make_booking_scenario,
    memory_ports,
)
from tests.support.pdfs import make_pdf

pytestmark = pytest.mark.anyio

EXCEPTED = {"events", "answers", "notices", "deliveries", "webhook_deliveries"}
"""Tables that keep data: published events and their deliveries, and rows that expire."""

TEXT = "hush"
"""A word in all texts of the person."""


async def add_parties(store: OpenStore) -> tuple[BookingScenario, dict[str, User]]:
    """A scenario of a customer and a companion with verified e-mails, and their users."""
    ports = memory_ports(store=store)
    scene = await make_booking_scenario(ports=ports)
    customer = await add_user(store, email="Zelda@Example.com", first_name="Zelda")
    companion = await add_companion(store, first_name="Yorick")
    async with store.read_view() as view:
        staff = await view.accounts.user(companion.id)
    assert staff is not None
    found = {"customer": customer, "staff": staff}
    proved = {party: evolve(user, email_verified_at=NOW) for party, user in found.items()}

    async def unit(tx: Transaction) -> None:
        for user in proved.values():
            await tx.accounts.save_user(user)

    await store.run_transaction(unit)
    return evolve(scene, customer=actor_of(customer), staff=actor_of(companion)), proved


async def write_personal_data(scene: BookingScenario, party: str, user: User) -> None:
    """Take a booking to its payout, and write data of each kind that a party can leave."""
    ports, words = scene.ports, {"location": TEXT, "event_ref": TEXT} if party == "customer" else {}
    booking = await scene.paid_out(**words)
    for name, one, other in (
        ("customer", scene.customer, scene.staff),
        ("staff", scene.staff, scene.customer),
    ):
        said = TEXT if name == party else "hello"
        await messages.send_to_user(ports, one, other.user_id, said)
        given = SubmitReview(rating=5, comment=said)
        review = await reviews.submit_review(ports, one, booking.id, given)
        if name == "customer":
            response = RespondToReview(response=TEXT if party == "staff" else "hello")
            await reviews.respond_to_review(ports, scene.staff, review.id, response)
    await add_dispute(scene, getattr(scene, party))
    await inquiries.submit_inquiry(
        ports, SubmitInquiry(name=user.name, email=user.email.upper(), message=TEXT)
    )
    payee = make_payee(user.id)
    payee = evolve(payee, command=evolve(payee.command, email=user.email, name=user.name))

    async def unit(tx: Transaction) -> None:
        await tx.payees.save_payee(payee)
        await tx.messages.lock_group(scene.customer.user_id, words.get("event_ref", "gala"), NOW)
        await tx.presence.renew_node_lease("node", NOW + HOUR)
        await tx.presence.add_connection(user.id, "node", NOW, 1)
        await tx.presence.remove_connection(user.id, "node", NOW)
        rows = [SkippedRow(1, user.email.swapcase(), "is odd"), SkippedRow(2, None, "is empty")]
        await tx.imports.save_progress(ImportProgress("file", 2, 0, 0, 2, NOW), rows)

    await ports.store.run_transaction(unit)
    await scene.drain()
    await add_audit_entries(ports, user, booking.code, review.id)


async def add_audit_entries(ports: Ports, user: User, code: str, review_id: int) -> None:
    """Add an audit entry of each kind about the person, and one by them."""
    subject_ids = {
        AuditSubject.PERSON: str(user.id),
        AuditSubject.COMPANION: str(user.id),
        AuditSubject.REVIEW: str(review_id),
        **dict.fromkeys(BOOKING_SUBJECTS, code),
    }
    by_person = make_audit_entry(actor_id=user.id, origin=f"host of {TEXT}")
    about_person = [
        make_audit_entry(actor="ops", subject=subject, subject_id=subject_id, reason=TEXT)
        for subject, subject_id in subject_ids.items()
    ]

    async def unit(tx: Transaction) -> None:
        for entry in (by_person, *about_person):
            await tx.audit.add_audit_entry(entry)

    await ports.store.run_transaction(unit)


async def add_dispute(scene: BookingScenario, actor: Actor) -> None:
    """A dispute that an actor opened with a file, and that was resolved and paid out."""
    booking = await scene.paid(event_date=(await scene.now() + 9 * DAY).date())
    file = await dispute_files.upload_file(scene.ports, actor, booking.id, make_pdf())
    await scene.jump_to(booking.starts_at)
    given = DisputeBooking(reason=TEXT, files=(file.id,))
    await disputes.open_dispute(scene.ports, actor, booking.id, given)
    statement = AddDisputeStatement(text=TEXT)
    await disputes.add_statement(scene.ports, actor, booking.id, statement)
    await scene.resolve(booking, ResolutionOutcome.RELEASE)
    await scene.jump_to(booking.starts_at + 2 * DAY)
    await scene.drain()


async def table_contents(store: OpenStore) -> dict[str, str]:
    """The rows of each table as lower-case text."""
    if isinstance(store, MemoryStore):
        state = store._committed.state
        tables = {each.name: getattr(state, each.name) for each in fields(MemoryState)}
        return {name: _text(rows) for name, rows in tables.items() if isinstance(rows, Rows)}
    assert isinstance(store, SqlStore)
    found = {}
    for name in metadata.tables:
        rows = await store.database.fetch_all(Statement(text(f"SELECT * FROM {name}")))
        found[name] = repr(rows).lower()
    return found


def _text(rows: Rows[Any, Any]) -> str:
    whole = [(key, asdict(row) if has(type(row)) else row) for key, row in rows.items()]
    return repr(whole).lower()


@pytest.mark.parametrize("party", ["customer", "staff"])
async def test_no_table_contains_erased_data(store: OpenStore, party: str) -> None:
    """After erasure no table but `EXCEPTED` contains the person's name, e-mail or texts."""
    scene, persons = await add_parties(store)
    user = persons[party]
    await write_personal_data(scene, party, user)
    private = (user.first_name.lower(), user.email.lower(), TEXT)
    before = await table_contents(store)
    assert all(any(word in rows for rows in before.values()) for word in private)
    assert isinstance(scene.ports.files, MemoryFiles)
    assert scene.ports.files.contents
    await privacy.erase_person(scene.ports, user.id)
    assert scene.ports.files.contents == {}
    assert await scene.faults() == []
    after = await table_contents(store)
    tables_with_data = {
        name for name, rows in after.items() if any(word in rows for word in private)
    }
    assert tables_with_data <= EXCEPTED
    async with store.read_view() as view:
        [presence] = await view.presence.presence([user.id], NOW)
    assert presence.last_seen is None


async def test_an_erased_name_is_replaced(store: OpenStore) -> None:
    """An erased person is named `Erased` in a conversation's title and participants."""
    scene, _ = await add_parties(store)
    await scene.paid_out()
    await messages.send_to_user(scene.ports, scene.customer, scene.staff.user_id, "hello")
    await privacy.erase_person(scene.ports, scene.staff.user_id)
    [found] = await messages.list_conversations(scene.ports, scene.customer, 1, 9)
    record = conversation_record(found, scene.customer.user_id)
    names = {each["user_id"]: each["name"] for each in record["participants"]}
    assert record["title"] == "Erased"
    assert names == {scene.customer.user_id: "Zelda Okoro", scene.staff.user_id: "Erased"}


async def test_the_audit_of_webhooks_and_keys_is_erased(store: OpenStore) -> None:
    """Texts about the person's endpoints, also deleted ones, deliveries, keys and portfolio items
    are erased, and those about others stay."""
    scene, persons = await add_parties(store)
    user, other = persons["staff"], persons["customer"]
    hook = await add_endpoint(store, user, vault=scene.ports.vault)
    delivery = await add_delivery(store, hook)
    await endpoints.delete_endpoint(scene.ports, user, hook.id)
    foreign = await add_endpoint(store, other, vault=scene.ports.vault)
    key = await add_api_key(store, user.id)
    item = await add_portfolio_item(store, user.id)
    named = (
        (AuditSubject.WEBHOOK, hook.id),
        (AuditSubject.DELIVERY, delivery.id),
        (AuditSubject.API_KEY, key.id),
        (AuditSubject.PORTFOLIO_ITEM, item.id),
        (AuditSubject.WEBHOOK, foreign.id),
    )

    async def unit(tx: Transaction) -> None:
        for subject, number in named:
            entry = make_audit_entry(subject=subject, subject_id=str(number), reason=TEXT)
            await tx.audit.add_audit_entry(entry)

    await store.run_transaction(unit)
    await privacy.erase_person(scene.ports, user.id)
    async with store.read_view() as view:
        kept = [each for each in await view.audit.audit_entries(9) if each.reason is not None]
    assert [each.subject_id for each in kept] == [str(foreign.id)]
