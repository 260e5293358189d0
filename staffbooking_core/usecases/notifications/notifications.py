"""Notifications by e-mail: stored with the change that causes them, sent afterwards, at least once.

1. A notification is claimed in one transaction, one at a time: a lease covers one e-mail.
2. The e-mail is built and sent outside of transactions.
3. Another transaction deletes the notification, or defers it after a failure.

A crash in between leaves the notification to the next claim after the lease. Failures are retried
with growing delays until the notification is given up.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
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
    NewSentMail,
    NotificationsReadPort,
    Ports,
    Transaction,
)
from staffbooking_core.request_context import caused_by_request
from staffbooking_core.usecases.accounts import email_tokens
from staffbooking_core.validation import validated

_NOTIFICATION_BATCH_SIZE = 16

_TOKEN_KINDS = frozenset({NotificationKind.VERIFY_EMAIL, NotificationKind.RESET_PASSWORD})
"""Kinds whose links are useless to a disabled user."""


class NotificationsGivenUp(StaffbookingError):
    """Notifications were given up; `faults` has the error of each."""

    code = "notices_given_up"

    def __init__(self, faults: Sequence[Exception]) -> None:
        self.faults: tuple[Exception, ...] = tuple(faults)
        number = len(self.faults)
        super().__init__(f"{number} notice{' was' if number == 1 else 's were'} given up")
        self.__cause__: BaseException | None = ExceptionGroup("given up", self.faults)


@validated
async def send_notifications(ports: Ports, limit: int = _NOTIFICATION_BATCH_SIZE) -> int:
    """Send due notifications, the longest due first, at most `limit`; returns their number. A
    failure does not block others.

    Raises NotificationsGivenUp after all others were sent.
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
        with caused_by_request(due.request_id):
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
    """Send one notification; returns the error for which it was given up, if it was."""
    email, given_up_fault = None, None
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
        email, given_up_fault = None, fault

    async def finish(tx: Transaction) -> None:
        await tx.notifications.finish_notification(due.id, lease)
        if email is not None and ports.policy.sandbox and ports.policy.keeps_mails:
            await tx.sandbox.add_sent_mail(_sent_mail(email, ports.clock.wall()))

    await ports.store.run_transaction(finish)
    return given_up_fault


def _sent_mail(email: Email, now: datetime) -> NewSentMail:
    return NewSentMail(
        sent_at=now,
        recipient=email.to,
        subject=email.subject,
        text=email.text,
        action=email.action,
        url=email.url,
        unsubscribe_url=email.unsubscribe_url,
    )


async def _build_email(ports: Ports, due: DueNotification) -> Email | None:
    """The e-mail of a notification; None where its recipient is gone or does not want it.

    Raises ValueError for an unknown kind.
    """
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
    """Erased users get nothing; disabled users get only mandatory kinds without tokens."""
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
    """The link of the e-mail. Tokens are created when it is sent, so that none is ever stored."""
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


# Preferences ------------------------------------------------------------------------------


@validated
async def get_preferences(ports: Ports, user_id: int) -> dict[NotificationKind, bool]:
    """The optional notification kinds, and whether the user gets each."""
    async with ports.store.read_view() as view:
        mutes = await view.notifications.muted_kinds_of(user_id)
    return {kind: kind not in mutes for kind in OPTIONAL_NOTIFICATION_KINDS}


@validated
async def set_preferences(
    ports: Ports, user_id: int, preferences: dict[NotificationKind, bool]
) -> dict[NotificationKind, bool]:
    """Switch optional notification kinds on or off for a user; returns all preferences."""

    async def unit(tx: Transaction) -> None:
        for kind, is_wanted in preferences.items():
            change = tx.notifications.unmute if is_wanted else tx.notifications.mute
            await change(user_id, kind)

    await ports.store.run_transaction(unit)
    return await get_preferences(ports, user_id)


@validated
async def kind_of_token(ports: Ports, token_text: str) -> NotificationKind:
    """The notification kind that an unsubscribe token ends; changes nothing.

    Raises RuleBroken `token_invalid`.
    """
    return (await _parse_unsubscribe_token(ports, token_text))[1]


@validated
async def unsubscribe(ports: Ports, token_text: str) -> NotificationKind:
    """End a notification kind for the user of an unsubscribe token; returns the kind. Repeatable.

    Raises RuleBroken `token_invalid`.
    """
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
    except ValueError:  # The e-mail is of another version.
        raise email_tokens.invalid_token() from None
