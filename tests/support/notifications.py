"""Notices and letters with sane defaults, as `builders` has them for all else."""

from __future__ import annotations

from typing import Any

from staffbooking_core.ports import Letter, Notice, NoticeKind, Store
from tests.support.builders import NOW


def make_notice(user_id: int | None = 1, **given: Any) -> Notice:
    """That a webhook endpoint of user 1 was disabled."""
    defaults: dict[str, Any] = {
        "user_id": user_id,
        "kind": NoticeKind.WEBHOOK_DISABLED,
        "subject": "Your webhook endpoint was disabled",
        "text": "It failed\nten times: \N{PILE OF POO}.",
    }
    return Notice(**{**defaults, **given})


def make_letter(**given: Any) -> Letter:
    """The same on its way to Ada Okoro."""
    defaults: dict[str, Any] = {
        "notice_id": 7,
        "kind": NoticeKind.WEBHOOK_DISABLED,
        "user_id": 1,
        "to": "ada@example.com",
        "name": "Ada Okoro",
        "subject": "Your webhook endpoint was disabled",
        "text": "It failed ten times.",
    }
    return Letter(**{**defaults, **given})


async def add_notice(store: Store, notice: Notice | None = None, at: Any = NOW) -> Notice:
    """A notice in the store, to be told from NOW on."""
    added = notice or make_notice()
    await store.write(lambda tx: tx.notices.add([added], at))
    return added
