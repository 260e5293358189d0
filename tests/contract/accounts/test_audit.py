"""Contract of the audit: entries are listed newest first, and never changed or removed."""

from __future__ import annotations

import pytest
from attrs import asdict
from sqlalchemy import text

from staffbooking_adapters.sql.engine.open import Statement
from staffbooking_adapters.testing.builders import add_user, make_audit_entry
from staffbooking_adapters.testing.store import OpenStore
from staffbooking_adapters.testing.store.base import read_store
from staffbooking_core.domain.accounts.audit import AuditEntry, AuditSubject
from staffbooking_core.ports import AuditFilters, Transaction
from tests.contract.stores import STORES

pytestmark = pytest.mark.anyio


async def add_entries(store, *entries):
    async def unit(tx: Transaction):
        for entry in entries:
            await tx.audit.add_audit_entry(entry)

    await store.run_transaction(unit)


async def list_entries(store, limit=9, offset=0):
    return list(await read_store(store, lambda view: view.audit.audit_entries(limit, offset)))


async def test_entries_are_listed_newest_first(store: OpenStore):
    """Entries are listed with all their fields, the newest first."""
    first = make_audit_entry(actor="ana", reason="Asked for it")
    second = make_audit_entry(actor="bo", act="enable")
    await add_entries(store, first, second)
    found = await list_entries(store)
    assert found == [
        AuditEntry(id=2, **asdict(second, recurse=False)),
        AuditEntry(id=1, **asdict(first, recurse=False)),
    ]


async def test_entries_come_in_pages(store: OpenStore):
    """A limit and an offset select a page of the audit."""
    await add_entries(store, *(make_audit_entry(actor=name) for name in "abc"))
    assert [each.actor for each in await list_entries(store, 1, 1)] == ["b"]


async def test_entries_are_filtered(store: OpenStore):
    """Each filter selects entries, and all that are given must hold, but one of those about the
    operator; a booking's code selects what was done to the booking alone."""
    admin = await add_user(store)
    given = (
        {"subject": AuditSubject.PAYOUT, "subject_id": "BK7", "actor_id": admin.id},
        {"subject": AuditSubject.DISPUTE, "subject_id": "BK7", "actor": "ana"},
        {"subject": AuditSubject.PERSON, "subject_id": "BK7", "actor": "ana"},
        {"subject": AuditSubject.DISPUTE, "subject_id": "BK8", "actor": "ana"},
    )
    await add_entries(store, *(make_audit_entry(**each) for each in given))
    for filters, found in (
        (AuditFilters(), [4, 3, 2, 1]),
        (AuditFilters(subject=AuditSubject.DISPUTE), [4, 2]),
        (AuditFilters(code="BK7"), [2, 1]),
        (AuditFilters(actor_id=admin.id), [1]),
        (AuditFilters(actor="ana"), [4, 3, 2]),
        (AuditFilters(AuditSubject.DISPUTE, "BK7", actor="ana"), [2]),
        (AuditFilters(actor_id=admin.id, actor="ana"), [4, 3, 2, 1]),
        (AuditFilters(AuditSubject.PAYOUT, "BK7", admin.id, "ana"), [1]),
        (AuditFilters(AuditSubject.REFUND), []),
    ):
        async with store.read_view() as view:
            entries = await view.audit.audit_entries(9, 0, filters)
        assert [each.id for each in entries] == found


async def test_an_admin_is_named_by_their_account(store: OpenStore):
    """The actor of an admin's entry is the e-mail address of the account."""
    admin = await add_user(store)
    await add_entries(store, make_audit_entry(actor_id=admin.id, origin="127.0.0.1"))
    [entry] = await list_entries(store)
    assert (entry.actor_id, entry.actor) == (admin.id, admin.email)


@pytest.fixture(params=["sqlite", "postgresql"])
async def sql_store(request):
    async with STORES[request.param](request) as opened:
        yield opened


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM audit",
        "UPDATE audit SET act = 'other'",
        "UPDATE audit SET actor = 'other'",
        "UPDATE audit SET reason = 'other'",
        "UPDATE audit SET reason = NULL, subject_id = '8'",
    ],
)
async def test_the_database_refuses_changes(sql_store, statement):
    """No statement removes an entry, or changes one to another text."""
    await add_entries(sql_store, make_audit_entry(actor="ana", reason="Asked"))
    before = await list_entries(sql_store)
    with pytest.raises(Exception, match="audit_append_only"):
        await sql_store.database.execute(Statement(text(statement)))
    assert await list_entries(sql_store) == before


async def test_the_database_allows_blanking(sql_store):
    """Reason and origin can be set to NULL, as erasure does."""
    await add_entries(sql_store, make_audit_entry(actor="ana", reason="Asked"))
    blank = Statement(text("UPDATE audit SET reason = NULL, origin = NULL"))
    await sql_store.database.execute(blank)
    [entry] = await list_entries(sql_store)
    assert (entry.reason, entry.origin) == (None, None)
