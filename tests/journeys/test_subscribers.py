"""A subscriber's first minutes: a key that works, a webhook that arrives, and what was sent."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import httpx
import pytest
from attrs import define, field

from staffbooking_core.webhook_receiver import WebhookReceiver
from tests.journeys.conftest import OpenPerson
from tests.journeys.http_server import run_http_server
from tests.journeys.people import Person

pytestmark = pytest.mark.journeys

_WORDS_PER_SECOND = 4
"""The pace of a reader: 240 words a minute."""
_SECONDS_PER_CLICK = 2
_LETTERS_PER_SECOND = 4


@define
class Receiver:
    """An HTTP server on loopback that receives webhooks."""

    url: str
    received: list[tuple[Mapping[str, str], bytes]] = field(factory=list)


@contextmanager
def run_receiver() -> Iterator[Receiver]:
    def respond(headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        receiver.received.append((headers, body))
        return 204, b""

    with run_http_server(respond) as server_url:
        receiver = Receiver(f"{server_url}/hooks")
        yield receiver


@define
class Pace:
    """Estimates how long a person takes to read, type and point where the test takes no time."""

    person: Person
    seconds: float = 0.0
    started_at: float = field(factory=time.monotonic)

    def read(self, *words: str) -> None:
        """Read the whole page, which has each of the words. The options of lists are not read."""
        self.person.reads(*words)
        main = self.person.main
        folded = " ".join(main.locator("option").all_text_contents()).split()
        word_count = len(main.inner_text().split()) - len(folded)
        self.seconds += word_count / _WORDS_PER_SECOND

    def fill(self, label: str, text: str) -> None:
        self.person.fill(label, text)
        self.seconds += _SECONDS_PER_CLICK + len(text) / _LETTERS_PER_SECOND

    def press(self, button: str) -> None:
        self.person.press(button)
        self.seconds += _SECONDS_PER_CLICK

    def follow(self, link: str) -> None:
        self.person.page.get_by_role("link", name=link, exact=True).first.click()
        self.seconds += _SECONDS_PER_CLICK

    def total(self) -> float:
        return self.seconds + time.monotonic() - self.started_at


def test_a_subscriber_gets_a_key_and_a_webhook_in_three_minutes(person: OpenPerson) -> None:
    """From the home page a subscriber makes a key and uses it, adds a webhook, sends a test and
    reads what was sent, within three minutes at the pace of people."""
    subscriber = person("enterprise")
    pace = Pace(subscriber)
    with run_receiver() as receiver:
        pace.follow("Dashboard")
        pace.read("How much of your limits is used", "Enterprise")
        pace.follow("Keys")
        pace.read("Make a key")
        pace.fill("Name", "website")
        pace.press("Make the key")
        pace.read("Your new key", "It is not shown again")
        key = subscriber.main.locator("#key").inner_text()
        assert key in subscriber.main.locator("#curl").inner_text()
        found = httpx.get(
            f"{subscriber.market.url}/api/v1/companions",
            params={"location": "lisbon"},
            headers={"authorization": f"Bearer {key}"},
        )
        assert (found.status_code, bool(found.json()["companions"])) == (200, True)
        pace.follow("Webhooks")
        pace.follow("Add a webhook")
        pace.read("Events to send")
        pace.fill("Address", receiver.url)
        pace.press("Add the webhook")
        pace.read("The secret of your webhook")
        secret = subscriber.main.locator("#secret").inner_text()
        pace.follow("I have copied it")
        pace.read("Nothing sent yet")
        pace.press("Send a test")
        pace.read("Delivered", "Your server answered 204", "webhook.test")
        seconds = pace.total()
        print(f"the subscriber was there in {seconds:.0f} seconds")
        assert seconds < 180
        [(headers, body)] = receiver.received
        WebhookReceiver([secret]).verify(headers, body, time.time())
        shown = json.loads(subscriber.main.locator("#pretty").inner_text())
        assert shown == json.loads(body)
        subscriber.follow("Back to the webhook")
        _delete_webhook(subscriber)
    _revoke_key(subscriber, key)


def _delete_webhook(subscriber: Person) -> None:
    subscriber.follow("Change")
    subscriber.follow("Delete the webhook…")
    subscriber.press("Delete the webhook")
    subscriber.reads("The webhook is deleted")


def _revoke_key(subscriber: Person, key: str) -> None:
    subscriber.open("/dashboard/keys")
    subscriber.main.get_by_role("link", name="Revoke website").first.click()
    subscriber.press("Revoke the key")
    subscriber.reads("The key is revoked")
    refused = httpx.get(
        f"{subscriber.market.url}/api/v1/companions", headers={"authorization": f"Bearer {key}"}
    )
    assert refused.status_code == 401
