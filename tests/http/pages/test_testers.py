"""Tests of the pages for testers of a sandbox: the bar, the sign-in by one click, kept mails."""

from __future__ import annotations

import re
from datetime import timedelta

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import POLICY
from staffbooking_core.ports import Transaction
from staffbooking_core.usecases import due_work
from staffbooking_http.pages.app import page_handlers, page_methods
from tests.http.deployment import HttpDeployment
from tests.http.pages.test_bookings import PEOPLE

pytestmark = pytest.mark.anyio

TESTERS_PATHS = [
    path
    for path in page_methods(page_handlers(sandbox=True, testers=True))
    if path not in page_methods(page_handlers(sandbox=True))
]
"""The addresses for testers."""


async def mark(world: HttpDeployment, *user_ids: int) -> None:
    async def unit(tx: Transaction) -> None:
        for user_id in user_ids:
            await tx.accounts.mark_sample_account(user_id)

    await world.store.run_transaction(unit)


def keep_mails(world: HttpDeployment) -> None:
    world.restart(policy=evolve(POLICY, keeps_mails=True))


async def register(client: httpx.AsyncClient) -> None:
    person = {
        "role": "customer",
        "first_name": "Nora",
        "last_name": "Lind",
        "email": "nora@example.com",
        "password": "correct horse battery",
    }
    answer = await client.post("/account/register", data=person, headers=PEOPLE)
    assert answer.status_code == 303, answer.text


# Where it is -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", TESTERS_PATHS)
async def test_without_a_sandbox_there_are_no_pages_for_testers(
    world: HttpDeployment, path: str
) -> None:
    """Without a sandbox the pages do not exist, whatever method is used."""
    world.restart(policy=evolve(POLICY, sandbox=False, keeps_mails=True))
    await mark(world, world.customer.id)
    for method in ("GET", "POST"):
        answer = await world.client().request(method, path, headers=PEOPLE)
        assert answer.status_code == 404
    assert 'class="demo"' not in (await world.client().get("/")).text


async def test_without_a_sample_there_is_no_bar(world: HttpDeployment) -> None:
    """A sandbox without accounts of the sample shows no bar."""
    assert 'class="demo"' not in (await world.client().get("/")).text


async def test_the_bar_stands_after_the_skip_link(world: HttpDeployment) -> None:
    """The bar is a named region after the skip link, with a button for each account of the sample
    and no other; the button of one's own account is pressed."""
    await mark(world, world.customer.id, world.companion.id, world.admin.id)
    client = await world.signed_in_client(world.customer.id)
    for path in ("/", "/find", "/account", "/how-it-works", "/sandbox/checkout/none"):
        text = (await client.get(path, headers=PEOPLE)).text
        assert text.index('class="skip"') < text.index('<section class="demo" aria-label="Demo">')
        values = re.findall(r'name="account" value="(\d+)" aria-pressed="(\w+)"', text)
        assert dict(values) == {
            str(world.customer.id): "true" if "You are signed in as" in text else "false",
            str(world.companion.id): "false",
            str(world.admin.id): "false",
        }


async def test_the_bar_is_put_away(world: HttpDeployment) -> None:
    """The bar is hidden by a button, except on the pages for testers, and shown again by
    another."""
    keep_mails(world)
    await mark(world, world.customer.id)
    client = world.client()
    hidden = await client.post("/sandbox/bar?next=/find", data={"hide": "true"})
    assert (hidden.status_code, hidden.headers["location"]) == (303, "/find")
    assert '<section class="demo"' not in (await client.get("/find")).text
    assert '<section class="demo"' in (await client.get("/sandbox/mails")).text
    await client.post("/sandbox/bar")
    assert '<section class="demo"' in (await client.get("/find")).text


async def test_the_documentation_does_not_ask_the_store(world: HttpDeployment) -> None:
    """The documentation has the bar only if another page made it before."""
    await mark(world, world.customer.id)
    client = world.client()
    assert '<section class="demo"' not in (await client.get("/docs")).text
    await client.get("/")
    assert '<section class="demo"' in (await client.get("/docs")).text


# Signing in ------------------------------------------------------------------------------


async def test_one_click_signs_in(world: HttpDeployment) -> None:
    """The button of an account signs in; that of another takes its place and ends the session."""
    await mark(world, world.customer.id, world.companion.id)
    client = world.client()
    await client.post("/sandbox/sign-in", data={"account": str(world.customer.id)})
    assert "You are signed in as Ada" in (await client.get("/")).text
    former = client.cookies["connect.sid"]
    await client.post("/sandbox/sign-in", data={"account": str(world.companion.id)})
    assert (await client.get("/staff/hours", headers=PEOPLE)).status_code == 200
    old = world.client(cookie=f"connect.sid={former}")
    assert (await old.get("/auth/session")).status_code == 401


async def test_nobody_signs_in_to_the_account_of_a_stranger(world: HttpDeployment) -> None:
    """Accounts that the sample did not make can't be chosen, whatever the form holds."""
    await mark(world, world.customer.id)
    stranger = str(world.stranger.id)
    forms = [{"account": text} for text in (stranger, "0", "-1", "9" * 40, "<b>", "", "1e3")]
    for form in (*forms, {}, {"account": stranger, "csrf": "x"}):
        client = world.client()
        answer = await client.post("/sandbox/sign-in", data=form, headers=PEOPLE)
        assert 400 <= answer.status_code < 500, form
        assert "connect.sid" not in client.cookies


async def test_a_foreign_page_signs_nobody_in(world: HttpDeployment) -> None:
    """A form of another origin is refused, and no other host is led to."""
    await mark(world, world.customer.id)
    form, foreign = {"account": str(world.customer.id)}, {"origin": "https://other.test"}
    for path in ("/sandbox/sign-in", "/sandbox/bar"):
        assert (await world.client().post(path, data=form, headers=foreign)).status_code == 403
    away = await world.client().post("/sandbox/sign-in?next=//other.test", data=form)
    assert away.headers["location"] == "/"


# Mails -----------------------------------------------------------------------------------


async def test_a_mail_is_found_and_its_link_works(world: HttpDeployment) -> None:
    """The mail of a registration is kept, and the link in it confirms the address. The page after
    the registration leads to it."""
    keep_mails(world)
    client = world.client()
    await register(client)
    await due_work.run_all_due(world.ports)
    assert "/sandbox/mails" in (await client.get("/?registered")).text
    text = (await client.get("/sandbox/mails")).text
    assert "nora@example.com" in text
    [link] = re.findall(r'href="https?://[^/]+(/account/verify-email/[^"]+)"', text)
    assert "confirmed" in (await client.post(link)).text


async def test_mails_are_not_shown_where_they_are_sent(world: HttpDeployment) -> None:
    """Where mails are not kept, because a mail server is set or strangers reach the sandbox, their
    page is not found and nothing leads to it."""
    client = world.client()
    await register(client)
    await due_work.run_all_due(world.ports)
    assert (await client.get("/sandbox/mails", headers=PEOPLE)).status_code == 404
    assert "/sandbox/mails" not in (await client.get("/?registered")).text
    keep_mails(world)
    assert "No mail yet" in (await world.client().get("/sandbox/mails", headers=PEOPLE)).text


async def test_mails_come_in_pages(world: HttpDeployment) -> None:
    """Twenty mails are on a page; the rest follows."""
    keep_mails(world)
    client = world.client()
    for number in range(23):
        world.clock.now += timedelta(hours=1)
        await world.client(f"198.51.100.{number}").post(
            "/account/forgot-password", data={"email": world.customer.email}
        )
    await due_work.run_all_due(world.ports)
    text = (await client.get("/sandbox/mails")).text
    [older] = re.findall(r'href="(/sandbox/mails\?before=\d+)"', text)
    rest = (await client.get(older)).text
    counts = [page.count('class="card mail"') for page in (text, rest)]
    assert counts[0] == 20
    assert 0 < counts[1] <= 3


async def test_a_wrong_page_of_mails_is_refused(world: HttpDeployment) -> None:
    """A page that is no number is 4xx."""
    keep_mails(world)
    for text in ("x", "0", "-5", "9" * 30, "1.5", "%F0%9F%98%80"):
        answer = await world.client().get(f"/sandbox/mails?before={text}", headers=PEOPLE)
        assert 400 <= answer.status_code < 500, text
