"""Contract of what operators work through: reviews, inquiries, approvals, endpoints, and the audit
of a person."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    NOW,
    POLICY,
    add_booking,
    add_companion,
    add_user,
    make_audit_entry,
)
from staffbooking_adapters.testing.builders_reviews import add_review
from staffbooking_adapters.testing.builders_webhooks import add_endpoint
from staffbooking_adapters.testing.store.base import OpenStore, StoreContract, read_store
from staffbooking_core.domain.accounts.audit import AuditSubject
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.notifications.inquiries import NewInquiry
from staffbooking_core.ports import Transaction


class OperatorsQueuesContract(StoreContract):
    """Reviews, inquiries, approvals, endpoints, and the audit of a person."""

    async def test_reviews_are_listed_newest_first(self, store: OpenStore):
        """All reviews come newest first, page by page; hidden ones alone, or only the others."""
        companion, customer = await add_companion(store), await add_user(store)
        made = [
            await add_review(store, await add_booking(store, companion, customer)) for _ in "abc"
        ]

        async def hide(tx: Transaction):
            await tx.companions.lock_companion(companion.id)
            await tx.reviews.save_hidden(evolve(made[1], hidden=True))

        await store.run_transaction(hide)

        async def ids(before=None, limit=9, **kind):
            found = await read_store(
                store, lambda view: view.reviews.newest_reviews(before, limit, **kind)
            )
            return [each.id for each in found]

        first, second, third = (each.id for each in made)
        assert await ids() == [third, second, first]
        assert await ids(third, 1) == [second]
        assert await ids(hidden=True) == [second]
        assert await ids(hidden=False) == [third, first]

    async def test_inquiries_are_answered_once(self, store: OpenStore):
        """An inquiry keeps its first answer; lists tell the answered from the others."""

        def new(name: str):
            return NewInquiry(name, "a@x.test", "", "Hello", NOW)

        async def add(tx: Transaction):
            return [await tx.notifications.add_inquiry(new(name)) for name in "abc"]

        made = await store.run_transaction(add)
        answered = evolve(made[1], answered_at=NOW, answered_by=7, note="By mail")
        later = evolve(answered, note="Again")
        assert await store.run_transaction(lambda tx: tx.notifications.save_answer(answered))
        assert not await store.run_transaction(lambda tx: tx.notifications.save_answer(later))
        known = await read_store(store, lambda view: view.notifications.inquiry(answered.id))
        assert known == answered
        assert await read_store(store, lambda view: view.notifications.inquiry(99)) is None

        async def names(before=None, limit=9, **kind):
            found = await read_store(
                store, lambda view: view.notifications.newest_inquiries(before, limit, **kind)
            )
            return "".join(each.name for each in found)

        assert await names() == "cba"
        assert await names(made[2].id, 1) == "b"
        assert await names(answered=True) == "b"
        assert await names(answered=False) == "ca"

    async def test_inquiries_are_kept_after_their_answer(self, store: OpenStore):
        """Inquiries are deleted 180 days after their answer; without an answer, 180 days after
        their arrival."""

        async def add(tx: Transaction):
            for answered_at in (None, NOW + HOUR, NOW + 9 * DAY):
                made = await tx.notifications.add_inquiry(
                    NewInquiry("Sam", "a@x.test", "", "Hello", NOW)
                )
                if answered_at is not None:
                    await tx.notifications.save_answer(evolve(made, answered_at=answered_at))

        await store.run_transaction(add)
        for since, deleted in ((0 * DAY, 1), (HOUR, 1), (8 * DAY, 0), (9 * DAY, 1)):
            now = NOW + POLICY.inquiry_retention + since
            assert await store.delete_expired(now, POLICY) == deleted, since

    async def test_complete_profiles_wait_for_an_approval(self, store: OpenStore):
        """Drafts, profiles of disabled people and those that are decided do not wait."""
        pending = {"approval": Approval.PENDING}
        first = await add_companion(store, **pending)
        others: tuple[dict[str, Any], ...] = (
            {"approval": Approval.APPROVED},
            {"approval": Approval.SUSPENDED},
            {**pending, "hourly_rate": 0},
            {**pending, "location_city": ""},
            {**pending, "location_country": ""},
            {**pending, "service_types": ()},
            {**pending, "active": False},
        )
        for other in others:
            await add_companion(store, **other)
        second = await add_companion(store, **pending)

        async def ids(after: int, limit: int):
            found = await read_store(
                store, lambda view: view.companions.companions_to_approve(after, limit)
            )
            assert all(each.awaits_approval for each in found)
            return [each.id for each in found]

        assert await ids(0, 9) == [first.id, second.id]
        assert await ids(0, 1) == [first.id]
        assert await ids(first.id, 9) == [second.id]

    async def test_silent_endpoints_are_listed_newest_first(self, store: OpenStore):
        """Endpoints that were disabled, that fail or are in trouble are silent; paused and deleted
        ones are not."""
        owner = await add_user(store)
        made = [await add_endpoint(store, owner) for _ in range(6)]
        changes: tuple[dict[str, Any], ...] = (
            {"active": False, "disabled_at": NOW},
            {"consecutive_failures": 1},
            {"degraded": True},
            {"active": False},
            {"deleted_at": NOW, "degraded": True},
            {},
        )
        changed = [evolve(one, **change) for one, change in zip(made, changes, strict=True)]
        await store.run_transaction(lambda tx: tx.webhooks.save_endpoints(changed))
        assert [each.is_silent for each in changed] == [True, True, True, False, False, False]

        async def ids(before=None, limit=9):
            found = await read_store(
                store, lambda view: view.webhooks.silent_endpoints(before, limit)
            )
            assert {each.owner.id for each in found} <= {owner.id}
            return [each.endpoint.id for each in found]

        one, two, three = (each.id for each in made[:3])
        assert await ids() == [three, two, one]
        assert await ids(three, 1) == [two]

    async def test_the_audit_of_a_person(self, store: OpenStore):
        """The entries about a person and their companion are found, the newest first."""
        person, admin = await add_user(store), await add_user(store)
        about = [
            (AuditSubject.PERSON, person.id),
            (AuditSubject.REVIEW, person.id),
            (AuditSubject.PERSON, admin.id),
            (AuditSubject.COMPANION, person.id),
        ]

        async def add(tx: Transaction):
            for subject, subject_id in about:
                entry = make_audit_entry(
                    actor_id=admin.id, subject=subject, subject_id=str(subject_id), reason="x"
                )
                await tx.audit.add_audit_entry(entry)

        await store.run_transaction(add)
        found = await read_store(store, lambda view: view.audit.audit_entries_about(person.id, 9))
        assert [each.subject for each in found] == [AuditSubject.COMPANION, AuditSubject.PERSON]
        assert {each.actor for each in found} == {admin.email}
        newest = await read_store(store, lambda view: view.audit.audit_entries_about(person.id, 1))
        assert newest == found[:1]
