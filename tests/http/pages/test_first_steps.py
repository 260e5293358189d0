"""Tests of the checklist of new staff members on their home page."""

from __future__ import annotations

import re

import pytest

from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.usecases.companions import approvals
from staffbooking_core.usecases.due_work import run_all_due
from tests.http.deployment import HttpDeployment, json_body
from tests.http.pages.test_profile import FILLED, ME, member, newcomer, send
from tests.support.html_pages import page_text

pytestmark = pytest.mark.anyio

HEADING = 'id="first-steps"'


def buttons(page: str) -> list[str]:
    """The addresses of the checklist's buttons; that of the next step is marked."""
    part = page[page.index(HEADING) :].partition("</section>")[0]
    return [
        f"*{path}" if kind else path
        for kind, path in re.findall(r'<a class="(main )?button" href="([^"]*)"', part)
    ]


async def test_a_new_member_is_led_step_by_step(each_world: HttpDeployment) -> None:
    """Each step is a button until it is done; the first that is left is the main one, and the list
    goes once the profile is approved and can be paid out to."""
    each_world.require_payout_accounts()
    maja = await newcomer(each_world)
    client = await member(each_world, maja)
    page = (await client.get("/")).text
    steps = ["/account/verify-email", "/staff/me", "/staff/hours", "/staff/payouts"]
    assert buttons(page) == [steps[0], "*/staff/me", *steps[2:]]
    assert "0 of 5 done" in page_text(page)
    await send(client, ME, **FILLED)
    page = (await client.get("/")).text
    assert buttons(page) == [steps[0], "*/staff/hours", steps[3]]
    assert "We are looking at it." in page
    signed_in = await each_world.signed_in_client(maja.id)
    opened = json_body(await signed_in.post("/staff/payout-account", json={}))
    json_body(await signed_in.post(opened["onboarding_url"], json={}))
    await run_all_due(each_world.ports)
    assert HEADING in (await client.get("/")).text
    await approvals.set_approval(each_world.ports, maja.id, Approval.APPROVED)
    assert HEADING not in (await client.get("/")).text


async def test_a_member_without_payout_account_is_reminded(world: HttpDeployment) -> None:
    """An approved profile without a payout account still has the list."""
    world.require_payout_accounts()
    maja = await newcomer(world)
    client = await member(world, maja)
    await send(client, ME, **FILLED)
    await approvals.set_approval(world.ports, maja.id, Approval.APPROVED)
    assert "*/staff/hours" in buttons((await client.get("/")).text)


async def test_an_account_is_no_step_where_payouts_do_without(world: HttpDeployment) -> None:
    """Where simulated payouts need no account, opening one is no step."""
    client = await member(world, await newcomer(world))
    page = (await client.get("/")).text
    assert buttons(page) == ["/account/verify-email", "*/staff/me", "/staff/hours"]
    assert "0 of 4 done" in page_text(page)


async def test_customers_have_no_such_list(world: HttpDeployment) -> None:
    """The list is for staff members."""
    client = await world.signed_in_client(world.customer.id)
    assert HEADING not in (await client.get("/")).text


async def test_the_list_speaks_the_members_language(world: HttpDeployment) -> None:
    """Titles, texts and buttons of the steps are translated."""
    client = await member(world, await newcomer(world))
    page = page_text((await client.get("/", headers={"accept-language": "de"})).text)
    for words in ("Profil ausfüllen", "Bis dahin gelten Sie", "Zeiten festlegen"):
        assert words in page
