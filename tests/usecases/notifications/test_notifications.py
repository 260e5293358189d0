"""Notifications are sent at least once, and only those that users want."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from attrs import evolve

from staffbooking_adapters.memory.doubles import RecordingNotifier
from staffbooking_adapters.testing.builders import NOW, POLICY, SECOND, add_user, make_lease
from staffbooking_adapters.testing.builders_notifications import add_notification, make_notification
from staffbooking_core.domain.accounts.users import User
from staffbooking_core.errors import NotificationsGivenUp, RuleBroken
from staffbooking_core.ports import (
    Email,
    NotificationKind,
    Ports,
    Transaction,
    UndeliverableEmail,
)
from staffbooking_core.usecases import due_work
from staffbooking_core.usecases.accounts import email_tokens
from staffbooking_core.usecases.notifications import notifications
from tests.support.memory_deployment import make_booking_scenario
from tests.usecases.notifications.notifiers import CallbackNotifier, add, failing, pass_time

pytestmark = pytest.mark.anyio

LEASE = POLICY.mail_timeout + POLICY.lease_duration


async def send_one(
    ports: Ports, notifier: CallbackNotifier, kind: NotificationKind, **given: Any
) -> list[Email]:
    """Store and send one notification; return the e-mails sent for it."""
    notifier.letters.clear()
    await add_notification(ports.store, make_notification(kind=kind, **given), ports.clock.wall())
    assert await notifications.send_notifications(ports) == 1
    return notifier.letters


async def change_user(ports: Ports, user_id: int = 1, **fields: object) -> User:
    async def unit(tx: Transaction) -> User:
        user = await tx.accounts.lock_user(user_id)
        assert user is not None
        changed = evolve(user, **fields)  # type: ignore[arg-type]
        await tx.accounts.save_user(changed)
        return changed

    return await ports.store.run_transaction(unit)


def let_the_lease_run_out(ports: Ports) -> None:
    pass_time(ports, ports.clock.wall() + LEASE)


# Delivery ---------------------------------------------------------------------------------


async def test_due_notifications_are_sent_once(ports: Ports, notifier: CallbackNotifier) -> None:
    """Due notifications are sent once, the longest due first."""
    assert await notifications.send_notifications(ports, 2) == 2
    assert await notifications.send_notifications(ports) == 1
    let_the_lease_run_out(ports)
    assert await notifications.send_notifications(ports) == 0
    assert notifier.told == ["one", "two", "three"]


async def test_a_drain_sends_notifications(ports: Ports, notifier: CallbackNotifier) -> None:
    """Running all due work sends notifications."""
    assert await due_work.run_all_due(ports) == 3
    assert notifier.told == ["one", "two", "three"]


async def test_a_fault_loses_nothing(ports: Ports, notifier: CallbackNotifier) -> None:
    """A failed notification does not block others and is retried after its delay."""
    notifier.before = failing("one", "three")
    assert await notifications.send_notifications(ports) == 3
    assert notifier.told == ["two"]

    notifier.before = None
    first = POLICY.notification_retry_delays[0]
    pass_time(ports, NOW + first - SECOND)
    assert await notifications.send_notifications(ports) == 0
    pass_time(ports, NOW + first)
    assert await notifications.send_notifications(ports) == 2
    assert notifier.told == ["two", "one", "three"]


async def test_retries_have_growing_delays(ports: Ports, notifier: CallbackNotifier) -> None:
    """Each delay of the policy is used, then NotificationsGivenUp is raised."""
    notifier.before = failing("two")
    assert await notifications.send_notifications(ports) == 3
    for wait in POLICY.notification_retry_delays[:-1]:
        pass_time(ports, ports.clock.wall() + wait)
        assert await notifications.send_notifications(ports) == 1
    pass_time(ports, ports.clock.wall() + POLICY.notification_retry_delays[-1])
    with pytest.raises(NotificationsGivenUp) as raised:
        await notifications.send_notifications(ports)
    [fault] = raised.value.faults
    assert str(raised.value) == "1 notice was given up"
    assert fault.__notes__ == ["notice 2 (webhook_disabled) was given up"]

    notifier.before = None
    pass_time(ports, ports.clock.wall() + 2 * POLICY.notification_retry_delays[-1])
    assert await notifications.send_notifications(ports) == 0


async def test_an_undeliverable_email_is_given_up_at_once(
    ports: Ports, notifier: CallbackNotifier
) -> None:
    """An undeliverable e-mail is given up at once, after all others were sent."""
    notifier.before = failing("one", fault=UndeliverableEmail)
    with pytest.raises(NotificationsGivenUp) as raised:
        await notifications.send_notifications(ports)
    assert list(map(str, raised.value.faults)) == ["one"]
    assert notifier.told == ["two", "three"]
    pass_time(ports, NOW + POLICY.notification_retry_delays[-1])
    assert await notifications.send_notifications(ports) == 0


async def test_an_unknown_kind_does_not_block_others(
    ports: Ports, notifier: CallbackNotifier
) -> None:
    """An unknown kind is retried and finally given up, without blocking others."""
    await add_notification(ports.store, make_notification(kind="of_tomorrow"), NOW - SECOND)
    assert await notifications.send_notifications(ports) == 4
    assert notifier.told == ["one", "two", "three"]
    for wait in POLICY.notification_retry_delays[:-1]:
        pass_time(ports, ports.clock.wall() + wait)
        assert await notifications.send_notifications(ports) == 1
    pass_time(ports, ports.clock.wall() + POLICY.notification_retry_delays[-1])
    with pytest.raises(NotificationsGivenUp) as raised:
        await notifications.send_notifications(ports)
    [fault] = raised.value.faults
    assert fault.__notes__ == ["notice 4 (of_tomorrow) was given up"]


async def test_a_killed_workers_notification_is_sent_by_others(
    ports: Ports, notifier: CallbackNotifier
) -> None:
    """The e-mail that a killed worker was sending is sent when the lease has ended."""
    with anyio.CancelScope() as scope:

        async def die(letter: Email) -> None:
            if letter.subject == "two":
                scope.cancel()
                await anyio.lowlevel.checkpoint()

        notifier.before = die
        await notifications.send_notifications(ports)
    assert notifier.told == ["one"]

    notifier.before = None
    assert await notifications.send_notifications(ports) == 1
    assert notifier.told == ["one", "three"]
    let_the_lease_run_out(ports)
    assert await notifications.send_notifications(ports) == 1
    assert [letter.notice_id for letter in notifier.letters] == [1, 3, 2]


async def test_a_claimed_notification_is_not_sent_by_others(
    ports: Ports, notifier: CallbackNotifier
) -> None:
    """A claimed notification is not sent by others until its lease ends."""
    lease = make_lease(ports.clock.wall())
    await ports.store.run_transaction(
        lambda tx: tx.notifications.claim_notifications(ports.clock.wall(), lease, 2)
    )
    assert await notifications.send_notifications(ports) == 1
    assert notifier.told == ["three"]
    pass_time(ports, lease.until)
    assert await notifications.send_notifications(ports) == 2


async def test_a_lease_covers_a_slow_email(ports: Ports, notifier: CallbackNotifier) -> None:
    """The lease covers a slow e-mail, and only one notification."""
    slow, quick = notifier, CallbackNotifier()

    async def be_slow(_: Email) -> None:
        slow.before = None
        pass_time(ports, NOW + POLICY.mail_timeout)
        assert await notifications.send_notifications(evolve(ports, notifier=quick)) == 2

    slow.before = be_slow
    assert await notifications.send_notifications(ports) == 1
    assert (slow.told, quick.told) == (["one"], ["two", "three"])


async def test_an_email_that_outlasts_its_lease_is_sent_twice(
    ports: Ports, notifier: CallbackNotifier
) -> None:
    """An e-mail that outlasts its lease is sent twice, and none is lost."""
    slow, quick = notifier, CallbackNotifier()

    async def be_late(_: Email) -> None:
        slow.before = None
        let_the_lease_run_out(ports)
        assert await notifications.send_notifications(evolve(ports, notifier=quick)) == 3

    slow.before = be_late
    assert await notifications.send_notifications(ports) == 1
    assert (slow.told, quick.told) == (["one"], ["one", "two", "three"])
    let_the_lease_run_out(ports)
    assert await notifications.send_notifications(ports) == 0


async def test_no_email_is_sent_inside_a_transaction(
    ports: Ports, notifier: CallbackNotifier
) -> None:
    """No transaction is open while an e-mail is sent."""

    async def write(_: Email) -> None:
        notifier.before = None
        with anyio.fail_after(1):
            await add(ports, "four")

    notifier.before = write
    assert await notifications.send_notifications(ports, 3) == 3
    assert await notifications.send_notifications(ports) == 1


# Recipients and content ---------------------------------------------------------------------


@pytest.fixture
async def quiet(ports: Ports, notifier: CallbackNotifier) -> Ports:
    """The scene after all notifications were sent."""
    await notifications.send_notifications(ports)
    return ports


async def test_a_letter_has_all_that_a_mail_needs(quiet: Ports, notifier: CallbackNotifier) -> None:
    """An e-mail has the current address and name, and a link."""
    await change_user(quiet, email="ada@new.example", first_name="Ada", last_name="King")
    [letter] = await send_one(quiet, notifier, NotificationKind.PAID, link="/bookings/7/return")
    assert (letter.user_id, letter.to, letter.name) == (1, "ada@new.example", "Ada King")
    assert letter.url == f"{POLICY.base_url}/bookings/7/return"
    assert letter.unsubscribe_url is None
    assert letter.reply_to is None


async def test_an_inquiry_goes_to_the_operators(quiet: Ports, notifier: CallbackNotifier) -> None:
    """An inquiry goes to the operators with the sender as reply address."""
    given = {"user_id": None, "address": "sam@example.com"}
    [letter] = await send_one(quiet, notifier, NotificationKind.INQUIRY, **given)
    assert (letter.to, letter.reply_to) == (POLICY.contact_email, "sam@example.com")
    assert letter.user_id is None


@pytest.mark.parametrize("kind", list(NotificationKind))
async def test_an_erased_user_gets_no_notification(
    quiet: Ports, notifier: CallbackNotifier, kind: NotificationKind
) -> None:
    """An erased user gets no notification of any kind."""
    await change_user(quiet, erased_at=NOW, disabled_at=NOW)
    told = await send_one(quiet, notifier, kind, address="ada@example.com")
    assert [letter.user_id for letter in told] == (
        [None] if kind is NotificationKind.INQUIRY else []
    )


@pytest.mark.parametrize(
    ("kind", "is_told"),
    [
        (NotificationKind.CANCELLED, True),
        (NotificationKind.PASSWORD_CHANGED, True),
        (NotificationKind.PAYOUT, False),
        (NotificationKind.NEW_MESSAGE, False),
        (NotificationKind.VERIFY_EMAIL, False),
        (NotificationKind.RESET_PASSWORD, False),
    ],
)
async def test_a_disabled_user_gets_no_optional_kinds_and_no_links(
    quiet: Ports, notifier: CallbackNotifier, kind: NotificationKind, is_told: bool
) -> None:
    """A disabled user gets neither optional kinds nor links with tokens."""
    await change_user(quiet, disabled_at=NOW)
    assert bool(await send_one(quiet, notifier, kind)) is is_told


async def test_a_notification_of_an_unknown_user_is_dropped(
    quiet: Ports, notifier: CallbackNotifier
) -> None:
    """A notification of an unknown user or address is dropped."""
    assert await send_one(quiet, notifier, NotificationKind.PAYOUT, user_id=404) == []
    given = {"user_id": None, "address": "nobody@example.com"}
    assert await send_one(quiet, notifier, NotificationKind.RESET_PASSWORD, **given) == []
    assert await notifications.send_notifications(quiet) == 0


async def test_a_muted_kind_is_not_sent(quiet: Ports, notifier: CallbackNotifier) -> None:
    """A muted kind is not sent, pending notifications included."""
    await notifications.set_preferences(quiet, 1, {NotificationKind.PAYOUT: False})
    assert await send_one(quiet, notifier, NotificationKind.PAYOUT) == []
    assert len(await send_one(quiet, notifier, NotificationKind.ACCEPTED)) == 1
    await notifications.set_preferences(quiet, 1, {NotificationKind.PAYOUT: True})
    assert len(await send_one(quiet, notifier, NotificationKind.PAYOUT)) == 1


async def test_choices_are_of_the_optional_kinds(quiet: Ports) -> None:
    """All optional kinds are on by default."""
    assert await notifications.get_preferences(quiet, 1) == {
        NotificationKind.ACCEPTED: True,
        NotificationKind.PAYOUT: True,
        NotificationKind.NEW_MESSAGE: True,
    }
    chosen = await notifications.set_preferences(quiet, 1, {NotificationKind.ACCEPTED: False})
    assert chosen == await notifications.get_preferences(quiet, 1)
    assert [kind for kind, wanted in chosen.items() if not wanted] == [NotificationKind.ACCEPTED]


async def test_the_unsubscribe_link_mutes_its_kind(
    quiet: Ports, notifier: CallbackNotifier
) -> None:
    """The unsubscribe link mutes its kind, repeatably; reading the kind changes nothing."""
    [letter] = await send_one(quiet, notifier, NotificationKind.PAYOUT)
    page, _, token = (letter.unsubscribe_url or "").rpartition("/")
    assert page == f"{POLICY.base_url}/notifications/unsubscribe"
    assert await notifications.kind_of_token(quiet, token) is NotificationKind.PAYOUT
    assert all((await notifications.get_preferences(quiet, 1)).values())
    for _ in "ab":
        assert await notifications.unsubscribe(quiet, token) is NotificationKind.PAYOUT
    assert not (await notifications.get_preferences(quiet, 1))[NotificationKind.PAYOUT]


async def test_an_invalid_unsubscribe_token_is_refused(
    quiet: Ports, notifier: CallbackNotifier
) -> None:
    """A token for another user or kind, or a malformed one, is invalid."""
    other = await add_user(quiet.store)
    [letter] = await send_one(quiet, notifier, NotificationKind.PAYOUT)
    token = (letter.unsubscribe_url or "").rpartition("/")[2]
    user, kind, signature = token.split(".")
    changed = "B" if signature[0] == "A" else "A"
    for forged in (
        f"{other.id}.{kind}.{signature}",
        f"{user}.new_message.{signature}",
        f"{user}.{kind}.{changed}{signature[1:]}",
        f"{2**63}.{kind}.{signature}",
        f"{user}.{kind}",
        "",
    ):
        with pytest.raises(RuleBroken) as raised:
            await notifications.unsubscribe(quiet, forged)
        assert raised.value.code == "token_invalid"
    assert all((await notifications.get_preferences(quiet, other.id)).values())


async def test_a_token_of_an_unknown_kind_is_invalid(quiet: Ports) -> None:
    """A signed token of an unknown kind is invalid."""
    user = await add_user(quiet.store)
    kind: Any = "carrier_pigeon"
    with pytest.raises(RuleBroken) as raised:
        await notifications.unsubscribe(quiet, email_tokens.unsubscribe_token(quiet, user, kind))
    assert raised.value.code == "token_invalid"


async def test_a_booking_notifies_its_parties_in_order() -> None:
    """Each party gets its notifications from request to payout, in order."""
    scene = await make_booking_scenario()
    await scene.paid_out()
    notifier = scene.ports.notifier
    assert isinstance(notifier, RecordingNotifier)
    customer, staff = scene.customer.user_id, scene.staff.user_id
    assert [(letter.user_id, letter.kind) for letter in notifier.emails] == [
        (staff, NotificationKind.REQUEST),
        (customer, NotificationKind.ACCEPTED),
        (staff, NotificationKind.PAID),
        (customer, NotificationKind.PAID),
        (staff, NotificationKind.PAYOUT),
    ]
