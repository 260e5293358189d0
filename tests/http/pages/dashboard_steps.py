"""Steps on the subscribers' dashboard."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

import httpx

from staffbooking_core.domain.accounts.users import User
from tests.http.deployment import HttpDeployment
from tests.http.pages.test_account import csrf
from tests.http.pages.test_bookings import PEOPLE
from tests.support.html_pages import page_text

OVERVIEW = "/dashboard"
KEYS = "/dashboard/keys"
WEBHOOKS = "/dashboard/webhooks"
EVENTS = "/dashboard/events"


async def dashboard(world: HttpDeployment, user: User | None = None) -> httpx.AsyncClient:
    """A browser of a user, by default the subscriber, without the header of programs."""
    client = await world.signed_in_client((user or world.subscriber).id)
    client.headers.pop("x-csrf-token", None)
    return client


async def send(
    client: httpx.AsyncClient,
    path: str,
    page: str | httpx.Response | None = None,
    **given: Any,
) -> httpx.Response:
    """Send a form to an address, with the hidden fields of the page it stands on."""
    seen = page if isinstance(page, httpx.Response) else await client.get(page or path)
    token = re.search(r'name="token" value="([^"]+)"', seen.text)
    fields = {"csrf": csrf(seen), "token": token[1] if token else "", **given}
    body = urlencode(fields, doseq=True)
    headers = {"content-type": "application/x-www-form-urlencoded", **PEOPLE}
    return await client.post(path, content=body, headers=headers)


async def make_key(
    client: httpx.AsyncClient, page: httpx.Response | None = None, **given: Any
) -> httpx.Response:
    fields = {"name": "app", "permissions": ("read", "book"), "expires": "never", **given}
    return await send(client, KEYS, page, **fields)


def shown_key(page: httpx.Response) -> str:
    """The key that a page shows."""
    found = re.search(r"ps_[0-9A-Za-z]{65}", page_text(page.text))
    assert found, page.text
    return found[0]


async def add_webhook(
    client: httpx.AsyncClient, page: httpx.Response | None = None, **given: Any
) -> httpx.Response:
    fields = {
        "url": "https://hooks.example.com/in",
        "events": ("booking.created", "booking.cancelled"),
        "description": "CRM",
        **given,
    }
    return await send(client, f"{WEBHOOKS}/new", page, **fields)
