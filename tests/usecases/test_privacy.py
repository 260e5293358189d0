"""Export and erasure of personal data."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from datetime import date

import pytest
from attrs import evolve

from staffbooking_adapters import codec
from staffbooking_adapters.memory.doubles import RecordingNotifier
from staffbooking_adapters.memory.files import MemoryFiles
from staffbooking_adapters.testing.builders import HOUR, NOW, add_api_key, add_session, add_user
from staffbooking_adapters.testing.builders_notifications import add_notification, make_notification
from staffbooking_core.domain.accounts.users import Actor, Role, Subscription, User
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.companions.portfolio import Image
from staffbooking_core.errors import NotFound, RuleBroken, StoreUnavailable, Unauthenticated
from staffbooking_core.inputs import CreateWebhook, SubmitInquiry, SubmitReview
from staffbooking_core.operator_inputs import BookingsOfDisabled
from staffbooking_core.ports import Ports, Transaction
from staffbooking_core.representations.json_types import format_instant
from staffbooking_core.usecases import privacy
from staffbooking_core.usecases.accounts import administration
from staffbooking_core.usecases.bookings import actions, disabling
from staffbooking_core.usecases.companions import calendars, images, reviews
from staffbooking_core.usecases.messaging import messages
from staffbooking_core.usecases.notifications import inquiries, notifications
from staffbooking_core.usecases.payments import operations, payees, reconciliation_runs
from staffbooking_core.usecases.webhooks import endpoints
from staffbooking_worker.jobs import JOBS
from tests.support.ics import make_ics_calendar, make_ics_hour
from tests.support.memory_deployment import (
    BookingScenario,
    make_booking_scenario,
    memory_ports,
    with_another_companion,
)

pytestmark = pytest.mark.anyio

HERE = "203.0.113.9"
PARTIES = ("customer", "staff")


async def told_all(scene: BookingScenario) -> None:
    """Play a booking to its payout, with messages, reviews and all other personal data."""
    booking = await scene.paid_out(location="Rua Secreta 7")
    ports, parties = scene.ports, (scene.customer, scene.staff)
    for one, other in (parties, parties[::-1]):
        await messages.send_to_user(ports, one, other.user_id, "call me")
        await reviews.submit_review(ports, one, booking.id, SubmitReview(rating=5, comment="good"))
    await scene.drain()


@pytest.fixture
async def scene() -> BookingScenario:
    made = await make_booking_scenario()
    await told_all(made)
    return made


def actor(scene: BookingScenario, party: str) -> Actor:
    found: Actor = getattr(scene, party)
    return found


async def user_of(scene: BookingScenario, who: Actor) -> User:
    async with scene.ports.store.read_view() as view:
        user = await view.accounts.user(who.user_id)
    assert user is not None
    return user


async def exported(scene: BookingScenario, who: Actor) -> dict[str, object]:
    """The export of a user as JSON values."""
    record = await privacy.export_user_data(scene.ports, who.user_id)
    found: dict[str, object] = json.loads(
        b"".join([each async for each in codec.iterate_json(record)])
    )
    return found


# Export -------------------------------------------------------------------------------------


@pytest.mark.parametrize("party", PARTIES)
async def test_one_sees_what_is_kept(scene: BookingScenario, party: str) -> None:
    """The export has the user's bookings, texts, and reviews of the user."""
    who = actor(scene, party)
    found = await exported(scene, who)
    counts = {name: len(part) for name, part in found.items() if isinstance(part, list) and part}
    assert counts == {"bookings": 1, "messages": 1, "reviews_written": 1, "reviews_received": 1}
    assert found["user"]["id"] == who.user_id  # type: ignore[index]
    assert (found["profile"] is None) is (party == "customer")
    assert ("payout_amount" in found["bookings"][0]) is (party == "staff")  # type: ignore[index]


async def test_what_is_much_is_read_page_by_page(
    scene: BookingScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unbounded lists are read one page at a time."""
    monkeypatch.setattr(privacy, "EXPORT_PAGE_SIZE", 2)
    for number in range(4):
        await messages.send_to_user(
            scene.ports, scene.customer, scene.staff.user_id, f"number {number}"
        )
    record = await privacy.export_user_data(scene.ports, scene.customer.user_id)
    pages = [page async for page in record["messages"]]
    assert [len(page) for page in pages] == [2, 2, 1]
    said = [each["content"] for page in pages for each in page]
    assert said == ["call me", *(f"number {number}" for number in range(4))]
    assert {name for name, part in record.items() if isinstance(part, AsyncIterator)} == {
        *("bookings", "disputes_opened", "rebooking_credits"),
        *("messages", "reviews_written", "reviews_received", "dispute_statements"),
    }


async def test_a_staff_member_sees_what_they_took_in(scene: BookingScenario) -> None:
    """The export has busy times, the feed, the payout account and the last presence."""
    ports, staff = scene.ports, scene.staff
    await calendars.set_busy_times(ports, staff, make_ics_calendar(make_ics_hour()))
    await calendars.create_feed(ports, staff)
    await payees.open_onboarding(ports, staff, "PT")

    async def leave(tx: Transaction) -> None:
        await tx.presence.renew_node_lease("node", NOW + HOUR)
        await tx.presence.add_connection(staff.user_id, "node", NOW, 1)
        await tx.presence.remove_connection(staff.user_id, "node", NOW)

    await ports.store.run_transaction(leave)
    found = await exported(scene, staff)
    assert found["busy_times"] == [
        {"starts_at": "2027-03-10T09:00:00Z", "ends_at": "2027-03-10T10:00:00Z"}
    ]
    assert found["calendar_feed"] == {"created_at": format_instant(await scene.now())}
    assert found["last_seen_at"] == format_instant(NOW)
    account = found["payout_account"]
    assert isinstance(account, dict)
    assert (account["provider"], account["country"]) == (ports.payments.name, "PT")


async def test_one_sees_what_one_complained_of() -> None:
    """The export has the reasons of the user's disputes, and rebooking credits."""
    scene = await make_booking_scenario()
    disputed = await scene.paid()
    await scene.jump_to(disputed.starts_at)
    await scene.dispute(disputed)
    cancelled = await scene.accepted(event_date=date(2027, 3, 20))
    await scene.cancel(cancelled, scene.staff)
    expires_at = format_instant(await scene.now() + scene.ports.policy.rebooking_credit)
    found = await exported(scene, scene.customer)
    assert found["disputes_opened"] == [{"booking_code": disputed.code, "reason": "nobody came"}]
    assert found["rebooking_credits"] == [
        {"booking_code": cancelled.code, "expires_at": expires_at, "used": False}
    ]
    other = await exported(scene, scene.staff)
    assert (other["disputes_opened"], other["rebooking_credits"]) == ([], [])


async def test_the_credit_for_a_disabled_staff_member_is_exported() -> None:
    """The export has the rebooking credit for a booking whose staff member was disabled."""
    scene = await make_booking_scenario()
    booking = await scene.paid()
    staff = await user_of(scene, scene.staff)
    await disabling.disable_user(scene.ports, staff.email, BookingsOfDisabled.CANCEL)
    credits = (await exported(scene, scene.customer))["rebooking_credits"]
    assert isinstance(credits, list)
    assert [credit["booking_code"] for credit in credits] == [booking.code]


async def test_no_secret_is_handed_out(scene: BookingScenario) -> None:
    """The export has no password hash and no session digest."""
    session = await add_session(scene.ports.store, scene.customer.user_id)
    text = json.dumps(await exported(scene, scene.customer))
    assert session.digest.hex() not in text
    assert "password" not in text


async def test_questions_are_whose_address_is_proved(scene: BookingScenario) -> None:
    """The export has inquiries only for a verified address."""
    user = await user_of(scene, scene.customer)
    await inquiries.submit_inquiry(
        scene.ports, SubmitInquiry(name="X", email=user.email, message="hush")
    )
    assert (await exported(scene, scene.customer))["inquiries"] == []
    proved = evolve(user, email_verified_at=NOW)
    await scene.ports.store.run_transaction(lambda tx: tx.accounts.save_user(proved))
    assert len((await exported(scene, scene.customer))["inquiries"]) == 1  # type: ignore[arg-type]


async def test_questions_of_others_stay(scene: BookingScenario) -> None:
    """Erasing a user with an unverified address keeps inquiries from it."""
    user = await user_of(scene, scene.customer)
    await inquiries.submit_inquiry(
        scene.ports, SubmitInquiry(name="X", email=user.email, message="mine")
    )
    await privacy.erase_person(scene.ports, user.id)
    async with scene.ports.store.read_view() as view:
        assert [each.message for each in await view.personal_data.inquiries_from(user.email)] == [
            "mine"
        ]


# Erasure --------------------------------------------------------------------------------------


@pytest.mark.parametrize("party", PARTIES)
async def test_nothing_names_who_is_forgotten(scene: BookingScenario, party: str) -> None:
    """No record names an erased user, and the ledger still balances."""
    who = actor(scene, party)
    other = scene.staff if party == "customer" else scene.customer
    user = await user_of(scene, who)
    gone = await privacy.erase_person(scene.ports, who.user_id)
    assert re.fullmatch(rf"erased-{who.user_id}-[\w-]{{20,}}@erased\.invalid", gone.email)
    async with scene.ports.store.read_view() as view:
        detail = await view.companions.companion(scene.staff.user_id)
        seen = [
            *await view.personal_data.bookings_of(other.user_id, 0, 9),
            *await view.messages.all_messages_after(0, 10),
            *await view.personal_data.reviews_written_by(who.user_id, 0, 9),
            await view.accounts.user(who.user_id),
            detail,
        ]
    text = repr(seen)
    for private in (user.name, user.email, "Rua Secreta" if party == "customer" else user.name):
        assert private not in text
    assert await scene.faults() == []


async def test_an_erased_operator_is_not_named_in_runs() -> None:
    """A run of the reconciliation does not name an erased operator, although nobody confirmed the
    address."""
    ports = memory_ports()
    operator = await add_user(ports.store, role=Role.ADMIN)
    await reconciliation_runs.ask_for_run(ports, operator.email)
    await privacy.erase_person(ports, operator.id)
    [run] = await reconciliation_runs.list_runs(ports)
    assert run.asked_by is None


async def test_an_operator_brings_nobody_back(scene: BookingScenario) -> None:
    """An erased account cannot be enabled or get a password."""
    gone = await privacy.erase_person(scene.ports, scene.customer.user_id)
    with pytest.raises(NotFound):
        await administration.enable_user(scene.ports, gone.email)
    with pytest.raises(NotFound):
        await administration.set_password(scene.ports, gone.email, "a-long-enough-password")
    assert await user_of(scene, scene.customer) == gone


async def test_a_companion_is_not_found_any_more(scene: BookingScenario) -> None:
    """An erased companion is not listed; its ratings of others stay."""
    await privacy.erase_person(scene.ports, scene.staff.user_id)
    async with scene.ports.store.read_view() as view:
        assert await view.companions.detail(scene.staff.user_id) is None
        companion = await view.companions.companion(scene.staff.user_id)
    assert companion is not None
    assert (companion.first_name, companion.bio, companion.total_reviews) == ("Erased", "", 1)


async def test_what_others_show_is_made_anew(scene: BookingScenario) -> None:
    """Details of companions no longer name an erased reviewer."""
    user = await user_of(scene, scene.customer)
    async with scene.ports.store.read_view() as view:
        before = await view.companions.detail(scene.staff.user_id)
        assert before is not None
        assert user.name.encode() in before
        await privacy.erase_person(scene.ports, scene.customer.user_id)
        after = await view.companions.detail(scene.staff.user_id)
    assert after is not None
    assert user.name.encode() not in after
    assert b'"reviewer_name":"Erased"' in after


@pytest.mark.parametrize("party", PARTIES)
@pytest.mark.parametrize("state", ["request", "accepted", "paid", "completed"])
async def test_who_has_open_bookings_is_not_forgotten(party: str, state: str) -> None:
    """Neither party is erased while a booking is open, and nothing changes."""
    scene = await make_booking_scenario()
    await getattr(scene, state)()
    who = actor(scene, party)
    before = await user_of(scene, who)
    with pytest.raises(RuleBroken) as raised:
        await privacy.erase_person(scene.ports, who.user_id)
    assert raised.value.code == "open_bookings"
    assert await user_of(scene, who) == before


@pytest.mark.parametrize("party", PARTIES)
async def test_nobody_is_forgotten_before_a_checkout_is_settled(party: str) -> None:
    """Neither party is erased while the order of a checkout, which names both, is unfinished."""
    scene = await make_booking_scenario()
    await scene.fault("open_checkout", "timeout_after", 9)
    booking = await scene.request()
    await actions.accept(scene.ports, scene.staff, booking.id)
    await operations.run_due_operation(scene.ports)
    await scene.cancel(await scene.booking(booking))
    who = actor(scene, party)
    with pytest.raises(RuleBroken):
        await privacy.erase_person(scene.ports, who.user_id)
    await scene.clear_faults()
    await scene.settle_down()
    await privacy.erase_person(scene.ports, who.user_id)
    assert "Erased" in repr((await scene.operations(booking))[0].command)


async def test_who_cancelled_and_got_it_back_is_forgotten() -> None:
    """A user whose cancelled booking was refunded can be erased."""
    scene = await make_booking_scenario()
    booking = await scene.cancel(await scene.paid())
    with pytest.raises(RuleBroken):
        await privacy.erase_person(scene.ports, scene.customer.user_id)
    await scene.settle_down()
    assert (await scene.booking(booking)).status is BookingStatus.CANCELLED
    await privacy.erase_person(scene.ports, scene.customer.user_id)
    assert await scene.faults() == []


async def test_one_is_forgotten_once(scene: BookingScenario) -> None:
    """Erasing or exporting an erased user raises NotFound."""
    await privacy.erase_person(scene.ports, scene.customer.user_id)
    for again in (privacy.erase_person, privacy.export_user_data):
        with pytest.raises(NotFound):
            await again(scene.ports, scene.customer.user_id)
    with pytest.raises(NotFound):
        await privacy.erase_person(scene.ports, 404)


async def test_the_address_is_free_again(scene: BookingScenario) -> None:
    """The address of an erased user can be registered as a new, empty account."""
    user = await user_of(scene, scene.customer)
    await privacy.erase_person(scene.ports, user.id)
    new = await add_user(scene.ports.store, email=user.email)
    found = await exported(scene, Actor(new.id, new.role))
    assert not any(part for part in found.values() if isinstance(part, list))


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_endpoints_go_with_their_owner(scene: BookingScenario, is_deleted: bool) -> None:
    """Erasure deletes endpoints with their URLs and pending deliveries, and the URLs of those that
    were deleted before."""
    user = await user_of(scene, scene.admin)
    given = CreateWebhook(url="https://hooks.example/hush")
    endpoint, _ = await endpoints.register_endpoint(scene.ports, user, given)
    if is_deleted:
        await endpoints.delete_endpoint(scene.ports, user, endpoint.id)
    await privacy.erase_person(scene.ports, user.id)
    async with scene.ports.store.read_view() as view:
        assert list(await view.webhooks.endpoints_of(user.id)) == []
    locked = await scene.ports.store.run_transaction(
        lambda tx: tx.webhooks.lock_endpoint(endpoint.id)
    )
    assert locked is None or "hush" not in locked.url


async def add_image(ports: Ports, who: Actor, name: str) -> None:
    image = Image(name, who.user_id, 5, NOW)
    await ports.files.put(name, b"bytes")
    await ports.store.run_transaction(lambda tx: tx.portfolio.add_image(image))


async def test_images_go_with_their_owner(scene: BookingScenario) -> None:
    """Erasure removes the user's image files and no others."""
    ports, other = scene.ports, await with_another_companion(scene)
    await add_image(ports, scene.staff, "a.png")
    await add_image(ports, other.staff, "b.png")
    await privacy.erase_person(ports, scene.staff.user_id)
    assert await ports.files.get("a.png") is None
    assert await ports.files.get("b.png") == b"bytes"


class Stubborn(MemoryFiles):
    """A file storage that fails to remove one file."""

    is_out_of_reach = True

    async def remove(self, name: str) -> None:
        if self.is_out_of_reach and name != "b.png":
            raise StoreUnavailable(name)
        await super().remove(name)


async def test_an_image_that_stays_is_removed_later(scene: BookingScenario) -> None:
    """A file that cannot be removed blocks neither others nor the erasure, and stays listed."""
    files, other = Stubborn(), await with_another_companion(scene)
    ports = evolve(scene.ports, files=files)
    for name in ("a.png", "b.png", "c.png"):
        await add_image(ports, scene.staff, name)
    await add_image(ports, other.staff, "d.png")
    await privacy.erase_person(ports, scene.staff.user_id)
    assert (await user_of(scene, scene.staff)).erased_at is not None
    assert sorted(files.contents) == ["a.png", "c.png", "d.png"]
    assert await images.remove_orphaned_files(ports) == 2
    files.is_out_of_reach = False
    assert [await images.remove_orphaned_files(ports) for _ in range(2)] == [2, 0]
    assert sorted(files.contents) == ["d.png"]


async def test_the_worker_removes_images_that_stayed(scene: BookingScenario) -> None:
    """The worker's sweep removes orphaned files."""
    files = Stubborn()
    ports = evolve(scene.ports, files=files)
    await add_image(ports, scene.staff, "a.png")
    await privacy.erase_person(ports, scene.staff.user_id)
    files.is_out_of_reach = False
    [sweep] = [lane for lane in JOBS if lane.name == "sweep"]
    await sweep.run(ports)
    assert not files.contents


async def test_who_is_forgotten_has_no_key_and_no_feed(scene: BookingScenario) -> None:
    """API keys and the calendar feed of an erased user stop at once."""
    ports, user = scene.ports, await user_of(scene, scene.staff)
    await administration.set_subscription(ports, user.email, Subscription.ENTERPRISE)
    key = await add_api_key(ports.store, user.id)
    secret, _ = await calendars.create_feed(ports, scene.staff)
    await ports.admission.authenticate_api_key(key.digest, None, (), NOW)
    assert await calendars.render_feed(ports, secret)
    await privacy.erase_person(ports, user.id)
    with pytest.raises(Unauthenticated):
        await ports.admission.authenticate_api_key(key.digest, None, (), NOW)
    with pytest.raises(NotFound):
        await calendars.render_feed(ports, secret)


async def test_who_is_forgotten_is_told_nothing_more(scene: BookingScenario) -> None:
    """An erased user gets no pending notification."""
    await add_notification(scene.ports.store, make_notification(scene.customer.user_id))
    await privacy.erase_person(scene.ports, scene.customer.user_id)
    notifier = scene.ports.notifier
    assert isinstance(notifier, RecordingNotifier)
    before = len(notifier.emails)
    assert await notifications.send_notifications(scene.ports) == 1
    assert len(notifier.emails) == before
