"""What people are to be told: written with what it is about, told afterwards, at least once.

Each notice is claimed in one transaction, told outside of any, and goes away in another once
it was told. Never more than one is claimed at a time: a lease covers one mail. Whoever dies in
between leaves it to the next who asks when the lease has run out; what could not be told is
tried again, later and later, and given up at last.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.notifications.notifications import (
    OPTIONAL_NOTIFICATION_KINDS,
    Email,
    Notification,
    NotificationKind,
    UndeliverableEmail,
)
from staffbooking_core.errors import StaffbookingError
from staffbooking_core.ports import (
    AccountsReadPort,
    DueNotification,
    Lease,
    NotificationsReadPort,
    Ports,
    Transaction,
)
from staffbooking_core.usecases.accounts import email_tokens

NOTIFICATION_BATCH_SIZE = 16

_TOKEN_KINDS = frozenset({NotificationKind.VERIFY_EMAIL, NotificationKind.RESET_PASSWORD})
"""Kinds that are no use to who can't sign in."""


class NotificationsGivenUp(StaffbookingError):
    """Notices are not tried any more; the cause says which, and for which faults."""

    code = "notices_given_up"

    def __init__(self, faults: Sequence[Exception]) -> None:
        self.faults = tuple(faults)
        number = len(self.faults)
        super().__init__(f"{number} notice{' was' if number == 1 else 's were'} given up")
        self.__cause__ = ExceptionGroup("given up", self.faults)


async def send_notifications(ports: Ports, limit: int = NOTIFICATION_BATCH_SIZE) -> int:
    """Tell people what they are to be told, what is due longest first; how much there was.

    What can't be told keeps nothing else from being told. Raises GivenUp after all others were
    told.
    """
    done, faults = 0, []
    while done < limit:
        lease = Lease(
            ports.ids.token(),
            ports.clock.wall() + ports.policy.mail_timeout + ports.policy.lease_duration,
        )
        due = await _claim_notification(ports, lease)
        if due is None:
            break
        fault = await _send_notification(ports, due, lease)
        if fault is not None:
            faults.append(fault)
        done += 1
    if faults:
        raise NotificationsGivenUp(faults)
    return done


async def _claim_notification(ports: Ports, lease: Lease) -> DueNotification | None:
    now = ports.clock.wall()

    async def unit(tx: Transaction) -> DueNotification | None:
        return next(iter(await tx.notifications.claim_notifications(now, lease, 1)), None)

    return await ports.store.run_transaction(unit)


async def _send_notification(ports: Ports, due: DueNotification, lease: Lease) -> Exception | None:
    """The fault for which the notice was given up, if it was."""
    given_up_fault = None
    try:
        email = await _build_email(ports, due)
        if email is not None:
            await ports.notifier.send_email(email)
    except Exception as fault:
        retry_delays = ports.policy.notification_retry_delays
        if due.attempts < len(retry_delays) and not isinstance(fault, UndeliverableEmail):
            until = ports.clock.wall() + retry_delays[due.attempts]
            await ports.store.run_transaction(
                lambda tx: tx.notifications.defer_notification(due.id, lease, until)
            )
            return None
        fault.add_note(f"notice {due.id} ({due.notification.kind}) was given up")
        given_up_fault = fault
    await ports.store.run_transaction(
        lambda tx: tx.notifications.finish_notification(due.id, lease)
    )
    return given_up_fault


async def _build_email(ports: Ports, due: DueNotification) -> Email | None:
    """A notice as its recipient gets it, if there is one who wants it and may have it. Raises
    ValueError for a kind that is not known."""
    notification = due.notification
    kind = NotificationKind(notification.kind)
    if kind is NotificationKind.INQUIRY:
        return _build_operator_email(ports, due)
    async with ports.store.read_view() as view:
        user = await _recipient(view.accounts, notification)
        if user is None or not await _should_notify(view.notifications, user, kind):
            return None
    return Email(
        notice_id=due.id,
        kind=kind,
        user_id=user.id,
        to=user.email,
        name=user.name,
        subject=notification.subject,
        text=notification.text,
        url=_link_url(ports, user, notification),
        unsubscribe_url=_unsubscribe_url(ports, user, kind),
    )


def _build_operator_email(ports: Ports, due: DueNotification) -> Email:
    notification = due.notification
    return Email(
        notice_id=due.id,
        kind=NotificationKind.INQUIRY,
        user_id=None,
        to=ports.policy.contact_email,
        name="",
        subject=notification.subject,
        text=notification.text,
        reply_to=notification.address,
    )


async def _recipient(accounts: AccountsReadPort, notification: Notification) -> User | None:
    if notification.user_id is not None:
        return await accounts.user(notification.user_id)
    return (
        None if notification.address is None else await accounts.user_by_email(notification.address)
    )


async def _should_notify(
    notifications: NotificationsReadPort, user: User, kind: NotificationKind
) -> bool:
    """Who was erased hears nothing more, who is locked out what they still have to know."""
    if user.erased_at is not None:
        return False
    if kind is NotificationKind.VERIFY_EMAIL and user.email_verified_at is not None:
        return False
    if user.disabled_at is not None and (
        kind in OPTIONAL_NOTIFICATION_KINDS or kind in _TOKEN_KINDS
    ):
        return False
    return (
        kind not in OPTIONAL_NOTIFICATION_KINDS
        or kind not in await notifications.muted_kinds_of(user.id)
    )


def _link_url(ports: Ports, user: User, notification: Notification) -> str | None:
    """Where the letter leads. Tokens are made now, so that none is ever stored."""
    match notification.kind:
        case NotificationKind.VERIFY_EMAIL:
            path = f"/account/verify-email/{email_tokens.verification_token(ports, user)}"
        case NotificationKind.RESET_PASSWORD:
            path = f"/account/reset-password/{email_tokens.password_reset_token(ports, user)}"
            if notification.link is not None:
                path += f"?next={quote(notification.link, safe='')}"
        case _ if notification.link is None:
            return None
        case _:
            path = notification.link
    return ports.policy.base_url + path


def _unsubscribe_url(ports: Ports, user: User, kind: NotificationKind) -> str | None:
    if kind not in OPTIONAL_NOTIFICATION_KINDS:
        return None
    token = email_tokens.unsubscribe_token(ports, user, kind)
    return f"{ports.policy.base_url}/notifications/unsubscribe/{token}"


# What people want to be told --------------------------------------------------------------


async def get_preferences(ports: Ports, user_id: int) -> dict[NotificationKind, bool]:
    """Which of the optional kinds a user is told of."""
    async with ports.store.read_view() as view:
        mutes = await view.notifications.muted_kinds_of(user_id)
    return {kind: kind not in mutes for kind in OPTIONAL_NOTIFICATION_KINDS}


async def set_preferences(
    ports: Ports, user_id: int, preferences: dict[NotificationKind, bool]
) -> dict[NotificationKind, bool]:
    """Set whether a user is told of some optional kinds; how all of them are then."""

    async def unit(tx: Transaction) -> None:
        for kind, is_wanted in preferences.items():
            change = tx.notifications.unmute if is_wanted else tx.notifications.mute
            await change(user_id, kind)

    await ports.store.run_transaction(unit)
    return await get_preferences(ports, user_id)


async def kind_of_token(ports: Ports, token_text: str) -> NotificationKind:
    """The kind of notices that a token of an unsubscription ends, and no more is done. Raises
    RuleBroken `token_invalid`."""
    return (await _parse_unsubscribe_token(ports, token_text))[1]


async def unsubscribe(ports: Ports, token_text: str) -> NotificationKind:
    """End notices of a kind for the user of a token, once or more often; the kind."""
    user, kind = await _parse_unsubscribe_token(ports, token_text)
    await ports.store.run_transaction(lambda tx: tx.notifications.mute(user.id, kind))
    return kind


async def _parse_unsubscribe_token(ports: Ports, token_text: str) -> tuple[User, NotificationKind]:
    token = email_tokens.parse_token(token_text)
    async with ports.store.read_view() as view:
        found = await view.accounts.user(token.user_id)
    user = email_tokens.check_token(ports, email_tokens.TokenPurpose.UNSUBSCRIBE, token, found)
    try:
        return user, NotificationKind(token.detail)
    except ValueError:  # Of another version, whose mails are still read.
        raise email_tokens.invalid_token() from None
