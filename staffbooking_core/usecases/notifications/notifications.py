"""Notifications by e-mail: stored with the change that causes them, sent afterwards, at least once.

1. Notifications are claimed in batches, which grow while e-mails are quick and begin with one: so a
   slow server holds up no e-mail that another worker could send.
2. The e-mails are built and sent outside of transactions, one after the other. A batch that takes
   long starts no more of them.
3. Another transaction settles the batch: sent notifications are deleted, failed ones are deferred,
   those that were not started are released.

A crash in between leaves the batch to the next claim after the lease. Failures are retried
with growing delays until the notification is given up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from urllib.parse import quote

from attrs import define, field, frozen

from staffbooking_core.domain.accounts.users import User, normalize_email
from staffbooking_core.domain.notifications.notifications import (
    OPTIONAL_NOTIFICATION_KINDS,
    Email,
    Notification,
    NotificationKind,
    UndeliverableEmail,
)
from staffbooking_core.errors import NotificationsGivenUp
from staffbooking_core.ports import (
    DueNotification,
    Lease,
    NewSentMail,
    Ports,
    Transaction,
)
from staffbooking_core.request_id import caused_by_request
from staffbooking_core.usecases.accounts import email_tokens
from staffbooking_core.validation import validated

MAX_BATCH_SIZE = 64
"""Maximum number of notifications in one batch."""

BATCH_GROWTH = 4
"""How many times as large the next batch is, when the last one was sent in time."""

MAX_BATCH_DURATION = timedelta(seconds=0.25)
"""A batch starts no more e-mails after this time. A worker that is killed leaves the e-mails of as
long to be sent again."""

_TOKEN_KINDS = frozenset({NotificationKind.VERIFY_EMAIL, NotificationKind.RESET_PASSWORD})
"""Kinds whose links are useless to a disabled user."""


@validated
async def send_notifications(
    ports: Ports, limit: int = 16, should_stop: Callable[[], bool] = lambda: False
) -> int:
    """Send due notifications, the longest due first, at most `limit`; returns their number. A
    failure does not block others. No e-mail is started once `should_stop()`.

    Raises NotificationsGivenUp after all others were sent.
    """
    done, size = 0, 1
    faults: list[Exception] = []
    while done < limit and not should_stop():
        batch = await _claim_batch(ports, min(size, limit - done))
        if not batch.unstarted:
            break
        await _send_batch(ports, batch, should_stop)
        done += batch.started_count
        faults += batch.faults
        size = 1 if batch.unstarted else min(BATCH_GROWTH * size, MAX_BATCH_SIZE)
    if faults:
        raise NotificationsGivenUp(faults)
    return done


@define
class _Batch:
    """Notifications claimed together, and what became of them so far."""

    lease: Lease
    unstarted: list[DueNotification]
    started_count: int = 0
    finished_ids: list[int] = field(factory=list)
    retry_times: dict[int, datetime] = field(factory=dict)
    """When to retry failed notifications, by id."""
    kept_mails: list[NewSentMail] = field(factory=list)
    faults: list[Exception] = field(factory=list)
    """The errors for which notifications were given up."""


async def _claim_batch(ports: Ports, limit: int) -> _Batch:
    now, policy = ports.clock.wall(), ports.policy
    lease = Lease(ports.ids.token(), now + policy.mail_timeout + policy.lease_duration)
    claimed = await ports.store.run_transaction(
        lambda tx: tx.notifications.claim_notifications(now, lease, limit)
    )
    return _Batch(lease, list(claimed))


async def _send_batch(ports: Ports, batch: _Batch, should_stop: Callable[[], bool]) -> None:
    """Send a batch and settle it. When interrupted, the e-mail in flight stays claimed: it may
    have been sent."""
    try:
        recipients = await _try_to_read_recipients(ports, batch.unstarted)
        # However slow the database was until here, the first e-mail is started, else none ever was.
        # The others are started while the lease covers them.
        covered_until = batch.lease.until - ports.policy.mail_timeout
        ends_at = min(ports.clock.wall() + MAX_BATCH_DURATION, covered_until)
        while batch.unstarted and not should_stop():
            if batch.started_count and ports.clock.wall() > ends_at:
                break
            due = batch.unstarted.pop(0)
            batch.started_count += 1
            with caused_by_request(due.request_id):
                await _send_notification(ports, batch, due, recipients)
    finally:
        await ports.store.run_transaction(lambda tx: _settle_batch(tx, batch))


async def _settle_batch(tx: Transaction, batch: _Batch) -> None:
    if batch.finished_ids:
        await tx.notifications.finish_notifications(batch.finished_ids, batch.lease)
    for notification_id, until in batch.retry_times.items():
        await tx.notifications.defer_notification(notification_id, batch.lease, until)
    if batch.unstarted:
        await tx.notifications.release_notifications(
            [due.id for due in batch.unstarted], batch.lease
        )
    if batch.kept_mails:
        await tx.sandbox.add_sent_mails(batch.kept_mails)


async def _send_notification(
    ports: Ports, batch: _Batch, due: DueNotification, recipients: _Recipients | None
) -> None:
    """Send one notification, and note in the batch what became of it."""
    try:
        email = _build_email(ports, due, recipients or await _read_recipients(ports, [due]))
        if email is not None:
            await ports.notifier.send_email(email)
    except Exception as fault:
        retry_delays = ports.policy.notification_retry_delays
        if due.attempts < len(retry_delays) and not isinstance(fault, UndeliverableEmail):
            batch.retry_times[due.id] = ports.clock.wall() + retry_delays[due.attempts]
            return
        fault.add_note(f"notice {due.id} ({due.notification.kind}) was given up")
        batch.faults.append(fault)
    else:
        if email is not None and ports.policy.sandbox and ports.policy.keeps_mails:
            batch.kept_mails.append(_sent_mail(email, ports.clock.wall()))
    batch.finished_ids.append(due.id)


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


# Recipients and content ---------------------------------------------------------------------


@frozen
class _Recipients:
    """The users that notifications are for, and the kinds that they muted."""

    by_id: Mapping[int, User]
    by_email: Mapping[str, User]
    muted_kinds: Mapping[int, frozenset[NotificationKind]]

    def find(self, notification: Notification) -> User | None:
        if notification.user_id is not None:
            return self.by_id.get(notification.user_id)
        if notification.address is None:
            return None
        return self.by_email.get(normalize_email(notification.address))

    def has_muted(self, user: User, kind: NotificationKind) -> bool:
        return kind in self.muted_kinds.get(user.id, ())


async def _read_recipients(ports: Ports, batch: Collection[DueNotification]) -> _Recipients:
    notifications = [due.notification for due in batch]
    user_ids = {each.user_id for each in notifications if each.user_id is not None}
    addresses = {each.address for each in notifications if each.address is not None}
    async with ports.store.read_view() as view:
        users = await view.accounts.find_users(user_ids, addresses)
        muted_kinds = await view.notifications.muted_kinds_of_all([user.id for user in users])
    by_email = {normalize_email(user.email): user for user in users}
    return _Recipients({user.id: user for user in users}, by_email, muted_kinds)


async def _try_to_read_recipients(
    ports: Ports, batch: Collection[DueNotification]
) -> _Recipients | None:
    """The recipients of a batch; None where they can't be read together: one that can't be read
    must not fail the others."""
    try:
        return await _read_recipients(ports, batch)
    except Exception:
        return None


def _build_email(ports: Ports, due: DueNotification, recipients: _Recipients) -> Email | None:
    """The e-mail of a notification; None where its recipient is gone or does not want it.

    Raises ValueError for an unknown kind.
    """
    notification = due.notification
    kind = NotificationKind(notification.kind)
    if kind is NotificationKind.INQUIRY:
        return _build_operator_email(ports, due)
    user = recipients.find(notification)
    if user is None or not _should_notify(recipients, user, kind):
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


def _should_notify(recipients: _Recipients, user: User, kind: NotificationKind) -> bool:
    """Erased users get nothing; disabled users get only mandatory kinds without tokens."""
    if user.erased_at is not None:
        return False
    if kind is NotificationKind.VERIFY_EMAIL and user.email_verified_at is not None:
        return False
    if user.disabled_at is not None and (
        kind in OPTIONAL_NOTIFICATION_KINDS or kind in _TOKEN_KINDS
    ):
        return False
    return kind not in OPTIONAL_NOTIFICATION_KINDS or not recipients.has_muted(user, kind)


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
