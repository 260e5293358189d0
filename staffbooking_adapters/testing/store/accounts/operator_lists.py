"""Contract of the operators' lists: each comes in pages, from an offset."""

from __future__ import annotations

from staffbooking_adapters.testing.builders import (
    DAY,
    NOW,
    add_booking,
    add_companion,
    add_user,
    make_booking_write,
    next_revision,
)
from staffbooking_adapters.testing.builders_portfolio import add_portfolio_item
from staffbooking_adapters.testing.builders_reviews import add_review
from staffbooking_adapters.testing.builders_webhooks import add_endpoint
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_core.domain.bookings.alerts import Alert
from staffbooking_core.domain.bookings.booking import PayoutStatus
from staffbooking_core.domain.companions.companion import Approval


class OperatorListsContract(StoreContract):
    """Each comes in pages, from an offset."""

    async def test_lists_begin_after_an_offset(self, store):
        """People, companions, items, reviews and endpoints are listed after an offset."""
        companions = [await add_companion(store) for _ in range(3)]
        customer = await add_user(store)
        items = [await add_portfolio_item(store, each.id) for each in companions]
        hooks = [await add_endpoint(store, customer) for _ in companions]
        bookings = [await add_booking(store, each, customer) for each in companions]
        reviews = [await add_review(store, each) for each in bookings]

        async def ids(query):
            return [getattr(each, "endpoint", each).id for each in await read_store(store, query)]

        assert await ids(lambda view: view.accounts.users(0, 1, 1)) == [companions[1].id]
        assert await ids(lambda view: view.companions.companions(0, 9, 1)) == [
            each.id for each in companions[1:]
        ]
        assert await ids(lambda view: view.portfolio.portfolio_items(None, 0, 1, 2)) == [
            items[2].id
        ]
        assert await ids(lambda view: view.reviews.reviews(0, 1, 1)) == [reviews[1].id]
        assert await ids(lambda view: view.webhooks.endpoints(0, 1, 1)) == [hooks[1].id]

    async def test_companions_are_listed_by_approval(self, store):
        """With an approval, only companions that have it are listed."""
        pending = await add_companion(store, approval=Approval.PENDING)
        await add_companion(store)
        found = await read_store(
            store, lambda view: view.companions.companions(0, 9, 0, Approval.PENDING)
        )
        assert [each.id for each in found] == [pending.id]

    async def test_payouts_and_alerts_begin_after_an_offset(self, store):
        """Open payouts and alerts are listed after an offset, in their order."""
        companion, customer = await add_companion(store), await add_user(store)
        numbers = []
        for days in range(3):
            booking = await add_booking(
                store,
                companion,
                customer,
                payout_status=PayoutStatus.SCHEDULED,
                payout_due_at=NOW + days * DAY,
            )
            numbers.append(booking.id)
            write = make_booking_write(next_revision(booking), alerts=(Alert(f"alert {days}"),))
            await store.run_transaction(lambda unit, write=write: unit.bookings.save_booking(write))
        payouts = await read_store(store, lambda view: view.bookings.open_payouts(1, 1))
        assert [each.id for each in payouts] == numbers[1:2]
        alerts = await read_store(store, lambda view: view.alerts.alerts(9, 1))
        assert [alert.text for alert in alerts] == ["alert 1", "alert 0"]

    async def test_addresses_and_bookings_are_found_by_id(self, store):
        """The e-mails of users and the bookings of alerts are found by id, unknown ids left out."""
        companion, customer = await add_companion(store), await add_user(store)
        booking = await add_booking(store, companion, customer)
        emails = await read_store(store, lambda view: view.accounts.emails_of({customer.id, 999}))
        assert emails == {customer.id: customer.email}
        found = await read_store(store, lambda view: view.alerts.bookings_of([booking.id, 999]))
        assert found == {booking.id: booking}
        assert await read_store(store, lambda view: view.alerts.bookings_of([])) == {}
