"""The contract of `Notifier`: mails and alerts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import anyio
import pytest
from attrs import frozen

from staffbooking_adapters.testing.builders_notifications import make_email
from staffbooking_core.ports import Notifier, UndeliverableEmail

__all__ = ["NotifierBench", "NotifierContract", "NotifierWorld", "ReceivedMail"]

_GIVE_UP_SECONDS = 8.0
"""A mail that takes so long although its server hangs has no timeout."""


@frozen
class ReceivedMail:
    """A mail as it arrived."""

    to: str
    subject: str
    text: str
    """All that can be read in it, links included."""


class NotifierWorld(Protocol):
    """What your tests do outside of the notifier: at its mail server, at the operators' pager."""

    async def mails(self) -> Sequence[ReceivedMail]:
        """The mails that arrived so far, the oldest first."""
        ...

    async def alerts(self) -> Sequence[str]:
        """The alerts that operators got so far, the oldest first."""
        ...

    async def refuse(self, address: str) -> None:
        """From now on mails to this address are refused for good: there is no such person."""

    async def fail_next(self) -> None:
        """The next mail fails for now: the server is busy."""

    async def hang_next(self) -> None:
        """The server never answers the next mail."""


@frozen
class NotifierBench:
    """A notifier, and the world outside of it. Its time limit of a mail should be short, such as
    0.2 seconds, since one test waits for its end."""

    notifier: Notifier
    world: NotifierWorld


class NotifierContract:
    """What every notifier that sends mail promises. A subclass names its notifier: `open_bench`
    opens it, and closes it after each test."""

    pytestmark = pytest.mark.anyio

    def open_bench(
        self, request: pytest.FixtureRequest
    ) -> AbstractAsyncContextManager[NotifierBench]:
        """The bench of one test, without mails. It can ask the request for fixtures."""
        pytest.fail(f"{type(self).__name__} does not override NotifierContract.open_bench")

    @pytest.fixture
    async def bench(self, request: pytest.FixtureRequest) -> AsyncIterator[NotifierBench]:
        async with self.open_bench(request) as opened:
            yield opened

    async def test_an_alert_reaches_the_operators(self, bench: NotifierBench) -> None:
        """Each alert reaches the operators once, in order, with the booking's id and its text."""
        texts = {7: "a payout is late", 1234567: "Zoë's refund failed"}
        for booking_id, text in texts.items():
            await bench.notifier.alert_operators(booking_id, text)
        alerts = await bench.world.alerts()
        assert len(alerts) == len(texts)
        for (booking_id, text), alert in zip(texts.items(), alerts, strict=True):
            assert str(booking_id) in alert
            assert text in alert

    async def test_a_mail_arrives(self, bench: NotifierBench) -> None:
        """A mail arrives once, at its address, with its subject and text."""
        email = make_email(subject="Zoë asks for you", text="On 4 March.\nFor 4 hours: 400 €.")
        await bench.notifier.send_email(email)
        [mail] = await bench.world.mails()
        assert (mail.to, mail.subject) == (email.to, email.subject)
        for line in email.text.split("\n"):
            assert line in mail.text

    async def test_a_mail_has_its_link(self, bench: NotifierBench) -> None:
        """The address of the page that a mail asks to open is in it."""
        email = make_email(url="https://book.example/bookings/12?from=mail")
        await bench.notifier.send_email(email)
        [mail] = await bench.world.mails()
        assert email.url
        assert email.url in mail.text

    async def test_a_mail_to_operators_has_no_user(self, bench: NotifierBench) -> None:
        """A mail without a user, which operators get, arrives as any other."""
        await bench.notifier.send_email(make_email(user_id=None, name="", to="ops@example.com"))
        assert [mail.to for mail in await bench.world.mails()] == ["ops@example.com"]

    async def test_mails_are_sent_concurrently(self, bench: NotifierBench) -> None:
        """Ten mails at once arrive once each, each at its own address."""
        emails = [make_email(notice_id=n, to=f"user{n}@example.com") for n in range(10)]
        async with anyio.create_task_group() as tasks:
            for email in emails:
                tasks.start_soon(bench.notifier.send_email, email)
        arrived = sorted(mail.to for mail in await bench.world.mails())
        assert arrived == sorted(email.to for email in emails)

    async def test_a_refused_address_is_undeliverable(self, bench: NotifierBench) -> None:
        """A mail that can never be delivered raises UndeliverableEmail: any other error would
        repeat it. Later mails arrive."""
        await bench.world.refuse("gone@example.com")
        with pytest.raises(UndeliverableEmail):
            await bench.notifier.send_email(make_email(to="gone@example.com"))
        await bench.notifier.send_email(make_email())
        assert [mail.to for mail in await bench.world.mails()] == ["ada@example.com"]

    async def test_a_failed_mail_is_repeated(self, bench: NotifierBench) -> None:
        """A mail that fails for now raises an error, but not UndeliverableEmail, which would give
        it up; repeated, it arrives."""
        await bench.world.fail_next()
        try:
            await bench.notifier.send_email(make_email())
        except UndeliverableEmail:
            pytest.fail("a mail was given up that only failed for now")
        except Exception:
            await bench.notifier.send_email(make_email())
        else:
            pytest.fail("a mail counts as sent that was not")
        assert len(await bench.world.mails()) == 1

    async def test_a_hanging_mail_ends(self, bench: NotifierBench) -> None:
        """A mail whose server never answers raises an error at the notifier's own time limit, and
        the next one arrives."""
        await bench.world.hang_next()
        started = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(_GIVE_UP_SECONDS):
                await bench.notifier.send_email(make_email())
        except UndeliverableEmail:
            pytest.fail("a mail was given up whose outcome is unknown")
        except Exception:
            assert asyncio.get_running_loop().time() - started < _GIVE_UP_SECONDS, "no time limit"
        else:
            pytest.fail("a mail counts as sent that was not confirmed")
        await bench.notifier.send_email(make_email(to="next@example.com"))
        assert "next@example.com" in [mail.to for mail in await bench.world.mails()]
