"""What people are to be told, what they refuse to be told, and what they ask, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import asdict, evolve, frozen

from staffbooking_adapters.memory.state import NoticeRow, Place, is_holder, is_running
from staffbooking_core.domain.notifications.inquiries import Inquiry, NewInquiry
from staffbooking_core.domain.notifications.notifications import Notice, NoticeKind
from staffbooking_core.ports import DueNotice, Lease


@frozen
class NoticesReader:
    place: Place

    async def mutes_of(self, user_id: int) -> frozenset[NoticeKind]:
        return self.place.state.mutes.get(user_id) or frozenset()

    async def inquiries(self, after_id: int, limit: int) -> Sequence[Inquiry]:
        inquiries = self.place.state.inquiries
        return [inquiries[number] for number in sorted(inquiries) if number > after_id][:limit]


@frozen
class NoticesWriter(NoticesReader):
    async def add(self, notices: Sequence[Notice], at: datetime) -> None:
        put_notices(self.place, notices, at)

    async def claim(self, now: datetime, lease: Lease, limit: int) -> Sequence[DueNotice]:
        rows = self.place.state.notices
        due = sorted(
            (row.due_at, number)
            for number, row in rows.items()
            if row.due_at <= now and not is_running(row.lease, now)
        )
        claimed = [number for _, number in due[:limit]]
        for number in claimed:
            rows[number] = evolve(rows[number], lease=lease)
        return [DueNotice(each, rows[each].notice, rows[each].attempts) for each in claimed]

    async def finish(self, notice_id: int, lease: Lease) -> None:
        if self._held(notice_id, lease) is not None:
            self.place.state.notices.discard(notice_id)

    async def defer(self, notice_id: int, lease: Lease, until: datetime) -> None:
        if (row := self._held(notice_id, lease)) is not None:
            put_off = evolve(row, due_at=until, attempts=row.attempts + 1, lease=None)
            self.place.state.notices[notice_id] = put_off

    async def mute(self, user_id: int, kind: NoticeKind) -> None:
        self.place.state.mutes[user_id] = await self.mutes_of(user_id) | {kind}

    async def unmute(self, user_id: int, kind: NoticeKind) -> None:
        self.place.state.mutes[user_id] = await self.mutes_of(user_id) - {kind}

    async def add_inquiry(self, inquiry: NewInquiry) -> Inquiry:
        number = next(self.place.shared.inquiry_ids)
        added = Inquiry(id=number, **asdict(inquiry, recurse=False))
        self.place.state.inquiries[number] = added
        return added

    def _held(self, notice_id: int, lease: Lease) -> NoticeRow | None:
        row = self.place.state.notices.get(notice_id)
        return row if row is not None and is_holder(row.lease, lease) else None


def put_notices(place: Place, notices: Sequence[Notice], at: datetime) -> None:
    """Keep what is to be told from now on."""
    for notice in notices:
        place.state.notices[next(place.shared.notice_ids)] = NoticeRow(notice, at)
