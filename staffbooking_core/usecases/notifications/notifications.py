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
    OPTIONAL,
    Letter,
    Notice,
    NoticeKind,
    Undeliverable,
)
from staffbooking_core.errors import StaffbookingError
from staffbooking_core.ports import DueNotice, Lease, Ports, Reading, Writing
from staffbooking_core.usecases.accounts import email_tokens

BATCH = 16

_BY_TOKEN = frozenset({NoticeKind.VERIFY_EMAIL, NoticeKind.RESET_PASSWORD})
"""Kinds that are no use to who can't sign in."""


class GivenUp(StaffbookingError):
    """Notices are not tried any more; the cause says which, and for which faults."""

    code = "notices_given_up"

    def __init__(self, faults: Sequence[Exception]) -> None:
        self.faults = tuple(faults)
        number = len(self.faults)
        super().__init__(f"{number} notice{' was' if number == 1 else 's were'} given up")
        self.__cause__ = ExceptionGroup("given up", self.faults)


async def tell_notices(ports: Ports, limit: int = BATCH) -> int:
    """Tell people what they are to be told, what is due longest first; how much there was.

    What can't be told keeps nothing else from being told. Raises GivenUp after all others were
    told.
    """
    done, lost = 0, []
    while done < limit:
        lease = Lease(
            ports.ids.token(),
            ports.clock.wall() + ports.policy.mail_deadline + ports.policy.lease,
        )
        due = await _claim(ports, lease)
        if due is None:
            break
        fault = await _tell(ports, due, lease)
        if fault is not None:
            lost.append(fault)
        done += 1
    if lost:
        raise GivenUp(lost)
    return done


async def _claim(ports: Ports, lease: Lease) -> DueNotice | None:
    now = ports.clock.wall()

    async def unit(tx: Writing) -> DueNotice | None:
        return next(iter(await tx.notices.claim(now, lease, 1)), None)

    return await ports.store.write(unit)


async def _tell(ports: Ports, due: DueNotice, lease: Lease) -> Exception | None:
    """The fault for which the notice was given up, if it was."""
    lost = None
    try:
        letter = await _letter(ports, due)
        if letter is not None:
            await ports.notifier.tell(letter)
    except Exception as fault:
        waits = ports.policy.notice_waits
        if due.attempts < len(waits) and not isinstance(fault, Undeliverable):
            until = ports.clock.wall() + waits[due.attempts]
            await ports.store.write(lambda tx: tx.notices.defer(due.id, lease, until))
            return None
        fault.add_note(f"notice {due.id} ({due.notice.kind}) was given up")
        lost = fault
    await ports.store.write(lambda tx: tx.notices.finish(due.id, lease))
    return lost


async def _letter(ports: Ports, due: DueNotice) -> Letter | None:
    """A notice as its recipient gets it, if there is one who wants it and may have it. Raises
    ValueError for a kind that is not known."""
    notice = due.notice
    kind = NoticeKind(notice.kind)
    if kind is NoticeKind.INQUIRY:
        return _to_operators(ports, due)
    async with ports.store.reading() as view:
        user = await _recipient(view, notice)
        if user is None or not await _is_told(view, user, kind):
            return None
    return Letter(
        notice_id=due.id,
        kind=kind,
        user_id=user.id,
        to=user.email,
        name=user.name,
        subject=notice.subject,
        text=notice.text,
        url=_url(ports, user, notice),
        unsubscribe_url=_unsubscribe_url(ports, user, kind),
    )


def _to_operators(ports: Ports, due: DueNotice) -> Letter:
    notice = due.notice
    return Letter(
        notice_id=due.id,
        kind=NoticeKind.INQUIRY,
        user_id=None,
        to=ports.policy.contact_email,
        name="",
        subject=notice.subject,
        text=notice.text,
        reply_to=notice.address,
    )


async def _recipient(view: Reading, notice: Notice) -> User | None:
    if notice.user_id is not None:
        return await view.accounts.user(notice.user_id)
    return None if notice.address is None else await view.accounts.user_by_email(notice.address)


async def _is_told(view: Reading, user: User, kind: NoticeKind) -> bool:
    """Who was erased hears nothing more, who is locked out what they still have to know."""
    if user.erased_at is not None:
        return False
    if kind is NoticeKind.VERIFY_EMAIL and user.email_verified_at is not None:
        return False
    if user.disabled_at is not None and (kind in OPTIONAL or kind in _BY_TOKEN):
        return False
    return kind not in OPTIONAL or kind not in await view.notices.mutes_of(user.id)


def _url(ports: Ports, user: User, notice: Notice) -> str | None:
    """Where the letter leads. Tokens are made now, so that none is ever stored."""
    match notice.kind:
        case NoticeKind.VERIFY_EMAIL:
            path = f"/account/verify-email/{email_tokens.to_verify(ports, user)}"
        case NoticeKind.RESET_PASSWORD:
            path = f"/account/reset-password/{email_tokens.to_reset(ports, user)}"
            if notice.link is not None:
                path += f"?next={quote(notice.link, safe='')}"
        case _ if notice.link is None:
            return None
        case _:
            path = notice.link
    return ports.policy.base_url + path


def _unsubscribe_url(ports: Ports, user: User, kind: NoticeKind) -> str | None:
    if kind not in OPTIONAL:
        return None
    token = email_tokens.to_unsubscribe(ports, user, kind)
    return f"{ports.policy.base_url}/notifications/unsubscribe/{token}"


# What people want to be told --------------------------------------------------------------


async def choices(ports: Ports, user_id: int) -> dict[NoticeKind, bool]:
    """Which of the optional kinds a user is told of."""
    async with ports.store.reading() as view:
        mutes = await view.notices.mutes_of(user_id)
    return {kind: kind not in mutes for kind in OPTIONAL}


async def choose(
    ports: Ports, user_id: int, wanted: dict[NoticeKind, bool]
) -> dict[NoticeKind, bool]:
    """Set whether a user is told of some optional kinds; how all of them are then."""

    async def unit(tx: Writing) -> None:
        for kind, is_wanted in wanted.items():
            change = tx.notices.unmute if is_wanted else tx.notices.mute
            await change(user_id, kind)

    await ports.store.write(unit)
    return await choices(ports, user_id)


async def of_token(ports: Ports, text: str) -> NoticeKind:
    """The kind of notices that a token of an unsubscription ends, and no more is done. Raises
    RuleBroken `token_invalid`."""
    return (await _unsubscription(ports, text))[1]


async def unsubscribe(ports: Ports, text: str) -> NoticeKind:
    """End notices of a kind for the user of a token, once or more often; the kind."""
    user, kind = await _unsubscription(ports, text)
    await ports.store.write(lambda tx: tx.notices.mute(user.id, kind))
    return kind


async def _unsubscription(ports: Ports, text: str) -> tuple[User, NoticeKind]:
    token = email_tokens.read(text)
    async with ports.store.reading() as view:
        found = await view.accounts.user(token.user_id)
    user = email_tokens.check(ports, email_tokens.Purpose.UNSUBSCRIBE, token, found)
    try:
        return user, NoticeKind(token.detail)
    except ValueError:  # Of another version, whose mails are still read.
        raise email_tokens.invalid_token() from None
