"""Hostile forms to every page that takes one, by every role: none is answered by 5xx, none repeats
markup, and those of others' pages are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import TypeAlias

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import POLICY, add_companion
from staffbooking_adapters.testing.builders_portfolio import add_portfolio_item
from staffbooking_core.domain.accounts.users import csrf_token
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.companions.portfolio import PortfolioItemStatus
from staffbooking_core.ports import Transaction
from staffbooking_core.usecases.companions import approvals
from staffbooking_http.pages.app import page_handlers, page_methods
from tests.fuzz.hostile_forms import (
    HOSTILE_BODIES,
    MARKUP,
    PageForm,
    encode_form,
    find_forms,
    hostile_bodies,
)
from tests.fuzz.hostile_inputs import INVALID_PATH_SEGMENTS, sample_values
from tests.http.deployment import HttpDeployment
from tests.http.pages.test_bookings import PEOPLE
from tests.support.ics import make_ics_calendar, make_ics_hour
from tests.support.memory_deployment import BookingScenario, actor_of

pytestmark = pytest.mark.anyio

METHODS = page_methods(page_handlers(sandbox=True, testers=True))
ROLES = ("anonymous", "customer", "companion", "subscriber", "admin")
FORM = {"content-type": "application/x-www-form-urlencoded", **PEOPLE}
CHANGES_OF_A_FORM = 3
LEAST_FORMS = 50
"""Addresses of forms that the walk finds at least."""
FORMS_BY_ROLE: dict[str, Mapping[str, PageForm]] = {}
"""The forms of a role's pages. They are the same on each store, so the first one is walked."""

Browser: TypeAlias = tuple[httpx.AsyncClient, str]


async def browser(world: HttpDeployment, role: str) -> Browser:
    """A client without the header of programs, and its CSRF token."""
    if role == "anonymous":
        return world.client(), ""
    client = await world.signed_in_client(getattr(world, role).id)
    token = str(client.headers.pop("x-csrf-token"))
    return client, token


async def fill(world: HttpDeployment) -> None:
    """Give every role something to act on: bookings in many states, a key, an endpoint, a calendar,
    pictures, a review, an inquiry, and accounts of the sample."""
    world.restart(policy=evolve(POLICY, keeps_mails=True))
    world.raise_limits()
    people = (world.customer, world.companion, world.admin)
    scene = BookingScenario(world.ports, *(actor_of(each) for each in people))
    await scene.request(event_date=date(2027, 5, 1))
    await scene.accepted(event_date=date(2027, 5, 2), event_ref="Gala")
    await scene.accepted(event_date=date(2027, 5, 2), event_ref="Gala", start_time="18:00")
    await scene.paid(event_date=date(2027, 5, 3))
    await scene.dispute(await scene.completed())
    await scene.paid_out(event_date=date(2027, 3, 20))
    refused = await scene.paid(event_date=date(2027, 5, 4))
    await scene.fault("refund", "refuse")
    await scene.cancel(refused)
    await add_companion(world.store, approval=Approval.PENDING)
    for status in (PortfolioItemStatus.PENDING, PortfolioItemStatus.APPROVED):
        item = await add_portfolio_item(world.store, world.companion.id)
        await approvals.moderate_item(world.ports, item.id, status)

    async def unit(tx: Transaction) -> None:
        for person in (world.customer, world.companion):
            await tx.accounts.mark_sample_account(person.id)

    await world.store.run_transaction(unit)
    url = "https://calendar.example/basic.ics"
    hours = make_ics_calendar(make_ics_hour("20270302T090000Z"))
    world.calendar_fetcher.calendars[url] = hours
    inquiry = {"name": "A", "email": "a@b.example", "subject": "Hello", "message": "May we?"}
    steps: tuple[tuple[str, str, dict[str, str]], ...] = (
        ("companion", "/staff/calendars/addresses", {"url": url}),
        (
            "subscriber",
            "/dashboard/webhooks/new",
            {"url": "https://hooks.example/in", "events": "booking.created"},
        ),
        ("subscriber", "/dashboard/webhooks/1/test", {}),
        ("anonymous", "/contact-us", inquiry),
        ("customer", "/saved", {"companion": str(world.companion.id)}),
        ("companion", "/staff/payouts", {}),
    )
    for role, path, given in steps:
        client, token = await browser(world, role)
        done = await client.post(path, data={"csrf": token, **given}, headers=PEOPLE)
        assert done.status_code < 400, (path, done.text)


def check(answer: httpx.Response, *about: object) -> None:
    assert answer.status_code < 500, (*about, answer.text)
    assert MARKUP not in answer.text, about
    location = answer.headers.get("location", "/")
    is_local = location.startswith("/") and not location.startswith("//")
    assert is_local or location.startswith(POLICY.base_url), (*about, location)


def start_paths() -> list[str]:
    """The pages without parameters, and the first of each kind."""
    paths = [path for path, methods in METHODS.items() if "GET" in methods]
    return ["/", *(re.sub(r"\{[a-z]+\}", "1", path) for path in paths)]


async def send_hostile_forms(world: HttpDeployment, most: int | None = None) -> set[str]:
    """Send all forms of all roles' pages with hostile changes, `most` of each form, else all;
    returns the addresses of the forms."""
    await fill(world)
    addresses = set[str]()
    for role in ROLES:
        if role not in FORMS_BY_ROLE:
            client, _ = await browser(world, role)
            FORMS_BY_ROLE[role] = await find_forms(client, start_paths())
        forms = FORMS_BY_ROLE[role]
        addresses |= {form.action.partition("?")[0] for form in forms.values()}
        for shape, form in forms.items():
            client, token = await browser(world, role)  # Some forms end the session.
            changes = list(hostile_bodies(form, token))
            if most is not None and most <= len(changes):
                changes = [*sample_values(changes, most, shape)]
            for change, body in changes:
                answer = await client.post(form.action, content=body(), headers=FORM)
                check(answer, role, shape, change)
    return addresses


async def test_hostile_fields_never_fail(each_world: HttpDeployment) -> None:
    """Each form of each role's pages, with hostile values in its fields, without one, or with all
    fields twice, is refused or done, never answered by 5xx."""
    assert len(await send_hostile_forms(each_world, CHANGES_OF_A_FORM)) > LEAST_FORMS


@pytest.mark.soak
async def test_no_hostile_field_fails(each_world: HttpDeployment) -> None:
    """The same with every hostile value in every field."""
    assert len(await send_hostile_forms(each_world)) > LEAST_FORMS


@pytest.mark.parametrize("role", ROLES)
async def test_hostile_bodies_never_fail(world: HttpDeployment, role: str) -> None:
    """Every address that takes a form, sent what is no form, is never answered by 5xx, neither
    where it exists nor where its path names nothing."""
    await fill(world)
    for path, methods in METHODS.items():
        if "POST" not in methods:
            continue
        client, token = await browser(world, role)
        csrf = encode_form([("csrf", token.encode())])
        for body in sample_values(HOSTILE_BODIES, 3, path, role):
            for sent in (body, csrf + b"&" + body):
                address = re.sub(r"\{[a-z]+\}", "1", path)
                check(await client.post(address, content=sent, headers=FORM), path, body[:40])
        if "{" in path:
            for segment in sample_values(INVALID_PATH_SEGMENTS, 3, path, role):
                address = re.sub(r"\{[a-z]+\}", segment.replace("\\", r"\\"), path)
                check(await client.post(address, content=csrf, headers=FORM), address)
                check(await client.get(address, headers=PEOPLE), address)


@pytest.mark.parametrize(
    ("language", "told"),
    [
        ("en", "That is more text than fits here. Go back, and make it shorter."),
        ("de", "Das ist mehr Text, als hier Platz hat. Gehen Sie zurück und kürzen Sie ihn."),
    ],
)
async def test_a_form_with_too_much_text_is_told_in_words_of_people(
    world: HttpDeployment, language: str, told: str
) -> None:
    """A form over the limit of bytes is 413, and its page does not speak of bytes."""
    client, token = await browser(world, "companion")
    given = {"csrf": token, "bio": "\U0001f600" * 6_000}
    headers = {**PEOPLE, "accept-language": language}
    answer = await client.post("/staff/me", data=given, headers=headers)
    assert answer.status_code == 413
    assert told in answer.text
    assert "bytes" not in answer.text


OPERATORS_PATHS = [path for path in METHODS if path.startswith("/admin")]


async def test_operators_pages_are_not_there_for_others(world: HttpDeployment) -> None:
    """Every page of operators is 404 for customers, staff members and subscribers, by GET and by
    POST with their own token; who is signed out is led to sign in, and a form does nothing."""
    await fill(world)
    assert len(OPERATORS_PATHS) > 25
    for role in ROLES[:-1]:
        client, token = await browser(world, role)
        for path in OPERATORS_PATHS:
            address = re.sub(r"\{[a-z]+\}", "1", path)
            given = {"csrf": token, "reason": "x", "act": "approve", "role": "admin"}
            seen = await client.get(address, headers=PEOPLE)
            answers = [seen]
            if "POST" in METHODS[path]:
                answers.append(await client.post(address, data=given, headers=PEOPLE))
            for answer in answers:
                if role == "anonymous":
                    is_led = answer.headers.get("location", "").startswith("/account/sign-in")
                    assert is_led or answer.status_code == 401, (address, answer.status_code)
                else:
                    assert answer.status_code == 404, (role, address)


async def test_operators_forms_need_their_token(world: HttpDeployment) -> None:
    """No form of operators is taken without its token, or with somebody else's."""
    await fill(world)
    client, _ = await browser(world, "admin")
    for path in OPERATORS_PATHS:
        if "POST" in METHODS[path]:
            address = re.sub(r"\{[a-z]+\}", "1", path)
            for token in ("", csrf_token("another")):
                given = {"csrf": token, "reason": "x", "act": "approve", "outcome": "refund"}
                answer = await client.post(address, data=given, headers=PEOPLE)
                assert answer.status_code in (403, 404), (address, answer.status_code)
