"""Tests of the page on which a customer requests a booking."""

from __future__ import annotations

import asyncio
import html
import re
from typing import Any

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import HOUR, add_companion
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.usecases.companions import approvals
from tests.http.bookings.test_booking_flow import accepted
from tests.http.deployment import HttpDeployment, json_body
from tests.http.pages.test_bookings import PEOPLE
from tests.support.html_pages import page_text

pytestmark = pytest.mark.anyio

FILLED = {
    "event_date": "2027-03-03",
    "start_time": "18:00",
    "duration_hours": "4",
    "service_type": "Gala dinner",
    "location": "Rua Augusta 1\r\nLisbon",
    "event_ref": "",
}


def page(world: HttpDeployment) -> str:
    return f"/companions/{world.companion.id}/request"


def hidden(answer: httpx.Response) -> dict[str, str]:
    """The values of the form's hidden fields."""
    form = answer.text[answer.text.index("<main") :]
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form))


def filled_in(answer: httpx.Response) -> dict[str, str]:
    """The values of the form's hidden fields and text fields."""
    lines = re.findall(r'<input id="[^"]*" name="(\w+)"[^>]* value="([^"]*)"', answer.text)
    return {**hidden(answer), **dict(lines)}


async def browser(world: HttpDeployment, user_id: int | None = None) -> httpx.AsyncClient:
    """A customer's client without the API's CSRF header."""
    client = await world.signed_in_client(user_id or world.customer.id)
    client.headers.pop("x-csrf-token")
    return client


async def shown(world: HttpDeployment) -> tuple[httpx.AsyncClient, dict[str, str]]:
    """A customer's client and their completed form before it is submitted."""
    client = await browser(world)
    return client, {**hidden(await client.get(page(world))), **FILLED}


async def bookings(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json_body(await client.get("/bookings"))["bookings"]
    return listed


def problem(answer: httpx.Response) -> str:
    """The text of the page's only alert, without its tags."""
    [said] = re.findall(r'role="alert"[^>]*>(.*?)</(?:div>|p>\n)', answer.text, re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", said)).split())


async def refused(client: httpx.AsyncClient, path: str, data: dict[str, str]) -> httpx.Response:
    """The form that a refused form leads back to."""
    sent = await client.post(path, data=data)
    assert sent.status_code == 303
    assert sent.headers["location"].startswith(f"{path}?")
    return await client.get(sent.headers["location"])


async def test_a_customer_requests_a_booking(each_world: HttpDeployment) -> None:
    """The form shows the price and insurance cost and redirects to the booking."""
    client = await browser(each_world)
    asked = {"date": "2027-03-03", "start_time": "18:00", "duration_hours": "4"}
    form = await client.get(page(each_world), params={**asked, "service": "gala dinner"})
    for said in (
        "US$400.00",
        "Cancellation insurance for US$20.00",
        "in the last 24 hours",
        'name="event_date" type="date" value="2027-03-03"',
        'min="2027-03-01" max="2030-03-01"',
    ):
        assert said in form.text
    filled = {**FILLED, "event_ref": "Gala 27", "cancellation_insurance": "true"}
    sent = await client.post(page(each_world), data={**hidden(form), **filled})
    [booking] = await bookings(client)
    assert (sent.status_code, sent.headers["location"]) == (
        303,
        f"/bookings/{booking['id']}/return",
    )
    wanted = {
        "status": "pending",
        "companion_id": each_world.companion.id,
        "customer_id": each_world.customer.id,
        "event_date": "2027-03-03",
        "start_time": "18:00",
        "duration_hours": 4,
        "service_type": "Gala dinner",
        "location": "Rua Augusta 1\nLisbon",
        "event_ref": "Gala 27",
        "cancellation_insurance": True,
        "total_amount": 420,
    }
    assert {name: booking[name] for name in wanted} == wanted
    assert "Your request is with Mia" in (await client.get(sent.headers["location"])).text


async def test_what_is_not_ticked_is_not_bought(world: HttpDeployment) -> None:
    """Browsers omit an unchecked box, so insurance is not bought."""
    client, form = await shown(world)
    assert (await client.post(page(world), data=form)).status_code == 303
    [booking] = await bookings(client)
    assert (booking["cancellation_insurance"], booking["event_ref"]) == (False, None)


async def test_a_button_pressed_twice_requests_once(each_world: HttpDeployment) -> None:
    """A form submitted twice, also concurrently, leads to one booking."""
    client, form = await shown(each_world)
    sent = [client.post(page(each_world), data=form) for _ in range(3)]
    answers = [*await asyncio.gather(*sent), await client.post(page(each_world), data=form)]
    [booking] = await bookings(client)
    led = {(answer.status_code, answer.headers.get("location")) for answer in answers}
    assert led == {(303, f"/bookings/{booking['id']}/return")}


async def test_the_next_form_makes_the_next_booking(world: HttpDeployment) -> None:
    """Each rendered form has its own key, so different forms make separate bookings."""
    for hours in ("4", "5"):
        client, form = await shown(world)
        sent = await client.post(page(world), data={**form, "duration_hours": hours})
        assert sent.status_code == 303
    assert len(await bookings(client)) == 2


async def test_who_goes_back_and_sends_the_same_is_asked(each_world: HttpDeployment) -> None:
    """A form that was loaded again and is sent with the same input makes no second booking, unless
    it is sent once more."""
    client, form = await shown(each_world)
    assert (await client.post(page(each_world), data=form)).status_code == 303
    client, form = await shown(each_world)
    asked = await refused(client, page(each_world), form)
    assert asked.status_code == 400
    assert problem(asked).startswith("You have requested just this before")
    assert len(await bookings(client)) == 1
    sent = await client.post(page(each_world), data={**form, **hidden(asked)})
    assert sent.status_code == 303
    assert len(await bookings(client)) == 2


async def test_a_second_request_leads_to_the_first(each_world: HttpDeployment) -> None:
    """The page that asks leads to the request first, and sends it again second."""
    client, form = await shown(each_world)
    first = await client.post(page(each_world), data=form)
    client, form = await shown(each_world)
    asked = await refused(client, page(each_world), form)
    assert f'class="main button" href="{first.headers["location"]}">Open that request' in asked.text
    assert "<button>Send it again</button>" in asked.text


async def test_what_has_its_answer_is_requested_again(world: HttpDeployment) -> None:
    """The same input makes another booking once the first request has its answer."""
    client, form = await shown(world)
    await client.post(page(world), data=form)
    [booking] = await bookings(client)
    program = await world.signed_in_client(world.customer.id)
    json_body(await program.post(f"/bookings/{booking['id']}/cancel"))
    client, form = await shown(world)
    assert (await client.post(page(world), data=form)).status_code == 303


async def test_who_goes_back_and_changes_the_form_is_told(world: HttpDeployment) -> None:
    """A changed form with a used key is an error; submitted again it makes another booking."""
    client, form = await shown(world)
    await client.post(page(world), data=form)
    again = await refused(client, page(world), {**form, "duration_hours": "5"})
    assert again.status_code == 400
    assert problem(again).startswith("This form made a booking before")
    assert len(await bookings(client)) == 1
    sent = await client.post(page(world), data={**form, **hidden(again), "duration_hours": "5"})
    assert sent.status_code == 303
    assert len(await bookings(client)) == 2


WRONG: list[tuple[dict[str, str], int, str, str]] = [
    ({"duration_hours": "25"}, 422, "duration_hours", "Enter a number from 1 to 24."),
    ({"duration_hours": "4.0"}, 422, "duration_hours", "Enter a whole number."),
    ({"start_time": ""}, 400, "start_time", "Fill this in."),
    ({"event_date": "2027-02-28"}, 422, "event_date", "It lies in the past."),
    ({"event_date": "03.03.2027"}, 422, "event_date", "Choose a date."),
    ({"service_type": "Mime"}, 422, "service_type", "It is not offered by this companion."),
    ({"location": "x" * 301}, 422, "location", "Use at most 300 characters."),
]


@pytest.mark.parametrize(("wrong", "status", "field", "said"), WRONG)
async def test_invalid_input_is_an_error_at_its_field(
    world: HttpDeployment, wrong: dict[str, str], status: int, field: str, said: str
) -> None:
    """A refused form leads back to itself, with the fault at its field and all that was typed."""
    client, form = await shown(world)
    text = '<b>"Rua"</b>\n1'
    given = {**form, "location": text, "event_ref": 'a"b', "cancellation_insurance": "true"} | wrong
    answer = await refused(client, page(world), given)
    assert answer.status_code == status
    fault = re.search(rf'id="e-{field}">.*?</svg>([^<]*)</span>', answer.text, re.DOTALL)
    assert fault
    assert html.unescape(fault[1]) == said
    assert f'href="#f-{field}"' in answer.text
    for name in ("event_date", "start_time", "duration_hours", "event_ref"):
        text_of = html.escape(given[name], quote=False).replace('"', "&#34;")
        assert re.search(f'name="{name}"[^>]* value="{re.escape(text_of)}"', answer.text)
    kept = re.search(r"<textarea [^>]*>\n(.*?)</textarea>", answer.text, re.DOTALL)
    assert kept
    assert html.unescape(kept[1]) == given["location"]
    assert re.search(r'name="cancellation_insurance" value="true" checked', answer.text)
    assert await bookings(client) == []


async def test_all_faults_are_told_at_once(world: HttpDeployment) -> None:
    """Four faults of one form are told together, each at its field."""
    client, form = await shown(world)
    wrong = {"duration_hours": "x", "start_time": "6pm", "location": "", "event_date": "soon"}
    answer = await refused(client, page(world), {**form, **wrong})
    assert "Please look at 4 things again." in answer.text
    assert set(re.findall(r'id="e-(\w+)"', answer.text)) == set(wrong)


async def test_faults_of_the_form_and_of_the_event_are_told_at_once(world: HttpDeployment) -> None:
    """A missing place, a past day and a foreign service are faults of one answer."""
    client, form = await shown(world)
    wrong = {"location": "", "event_date": "2020-01-01", "service_type": "Diving"}
    answer = await refused(client, page(world), {**form, **wrong})
    assert set(re.findall(r'id="e-(\w+)"', answer.text)) == set(wrong)


async def test_no_start_is_invented_for_a_chosen_day(world: HttpDeployment) -> None:
    """A chosen day shows its free hours; start and hours are left to the customer."""
    client = await browser(world)
    answer = await client.get(page(world), params={"date": "2027-03-03"})
    form = filled_in(answer)
    assert (form["event_date"], form["start_time"], form["duration_hours"]) == (
        "2027-03-03",
        "",
        "",
    )


@pytest.mark.parametrize(
    ("button", "kept"),
    [
        ({"date": "2027-03-10"}, {"event_date": "2027-03-10"}),
        ({"month": "2027-04"}, {"event_date": "2027-03-03", "month": "2027-04"}),
    ],
)
async def test_the_calendar_of_the_form_loses_nothing(
    world: HttpDeployment, button: dict[str, str], kept: dict[str, str]
) -> None:
    """Choosing a day or a month leads to the form with all that was typed."""
    client, form = await shown(world)
    shown_form = (await client.get(page(world))).text
    name = next(iter(button))
    assert re.search(rf'<button form="request"[^>]*/price"[^>]* name="{name}"', shown_form)
    sent = await client.post(f"{page(world)}/price", data={**form, **button})
    assert sent.status_code == 303
    given = {name: text.replace("\r\n", "\n") for name, text in FILLED.items() if text}
    assert dict(httpx.URL(sent.headers["location"]).params) == {**given, **kept}


async def test_input_too_long_for_an_address_is_kept(world: HttpDeployment) -> None:
    """A refused form with a long text is shown as the answer itself."""
    client, form = await shown(world)
    answer = await client.post(page(world), data={**form, "location": "Å" * 5_000})
    assert answer.status_code == 422
    assert "Å" * 5_000 in answer.text


async def test_the_price_stands_before_the_button(world: HttpDeployment) -> None:
    """Whoever reads the page from its top has read the price before they send the request."""
    client = await browser(world)
    text = (await client.get(page(world))).text
    places = [text.index(part) for part in ('id="f-event_ref"', 'id="price"', "Send the request<")]
    assert places == sorted(places)


async def test_a_taken_time_is_marked_at_its_fields(world: HttpDeployment) -> None:
    """The date and the start of hours that are taken are marked, and name the refusal."""
    await accepted(world)
    client, form = await shown(world)
    text = (await refused(client, page(world), form)).text
    marked = re.findall(r'<input id="f-(\w+)"[^>]* aria-invalid="true"[^>]*>', text)
    assert marked == ["event_date", "start_time"]
    assert text.count('aria-describedby="refusal"') == text.count('id="refusal"') * 2


async def test_a_refusal_does_not_last(each_world: HttpDeployment) -> None:
    """A slot conflict is told with the free hours; the same form passes once the slot is free."""
    path, owner, _ = await accepted(each_world)
    client, form = await shown(each_world)
    answer = await refused(client, page(each_world), form)
    assert answer.status_code == 400
    assert problem(answer) == "Mia is taken at that time. Free: 00:00 to 18:00, 22:00 to midnight"
    json_body(await owner.post(f"{path}/cancel"))
    again = await client.post(page(each_world), data={**form, **hidden(answer)})
    assert again.status_code == 303
    assert again.headers["location"].startswith("/bookings/")


async def test_refused_forms_spend_no_window(each_world: HttpDeployment) -> None:
    """Only bookings that are made spend the window that pages share with programs; over it, the
    form keeps its fields, and so do forms that are sent at once."""
    limits = evolve(each_world.ports.policy.limits, bookings=RateLimit("bookings", 3, HOUR))
    each_world.restart(policy=evolve(each_world.ports.policy, limits=limits))
    program = await each_world.signed_in_client(each_world.customer.id)
    await program.post("/bookings", json={})
    client, form = await shown(each_world)
    for _ in range(5):
        await refused(client, page(each_world), {**form, "duration_hours": "25"})
        await refused(client, page(each_world), {**form, "event_date": "2027-02-28"})
    keys = [hidden(await client.get(page(each_world))) for _ in range(6)]
    forms = [{**form, **key, "duration_hours": f"{n + 1}"} for n, key in enumerate(keys)]
    sent = await asyncio.gather(*(client.post(page(each_world), data=each) for each in forms))
    made = [each for each in sent if each.headers["location"].startswith("/bookings/")]
    assert len(made) == len(await bookings(client)) <= 2
    for each in forms[len(made) : 2]:
        assert (await client.post(page(each_world), data=each)).status_code == 303
    spent = await refused(client, page(each_world), {**forms[5], "duration_hours": "9"})
    assert spent.status_code == 429
    assert "Try again later" in problem(spent)
    assert ">\nRua Augusta 1\nLisbon</textarea>" in spent.text
    assert "x-ratelimit-limit" not in spent.headers


async def test_a_button_without_scripts_shows_the_price(world: HttpDeployment) -> None:
    """The button leads to the form with its input in the address, without its token and key, and
    the price in the page; nothing is requested."""
    client, form = await shown(world)
    sent = await client.post(f"{page(world)}/price", data={**form, "duration_hours": "5"})
    assert sent.status_code == 303
    assert not {"csrf", "key"} & set(httpx.URL(sent.headers["location"]).params)
    assert "US$500.00" in (await client.get(sent.headers["location"])).text
    assert await bookings(client) == []


async def test_the_price_tells_why_it_can_not_be(world: HttpDeployment) -> None:
    """The price of hours that are taken says so, with the free hours of the day."""
    await accepted(world)
    client = await browser(world)
    asked = {"event_date": "2027-03-03", "start_time": "17:00", "duration_hours": "4"}
    answer = await client.get(page(world), params={**asked, "service_type": "Gala dinner"})
    assert (answer.status_code, "Mia is taken at that time." in answer.text) == (200, True)
    assert "22:00 to midnight" in answer.text


UNPRICED = [
    ("event_date", "2026-01-01", "Date: It lies in the past."),
    ("start_time", "25:00", "Start: Enter a time such as 18:30."),
    ("duration_hours", "40", "Hours: Enter a number from 1 to 24."),
]


@pytest.mark.parametrize(("field", "text", "reason"), UNPRICED)
@pytest.mark.parametrize("others", [{}, FILLED])
async def test_a_wrong_value_is_told_in_place_of_the_price(
    world: HttpDeployment, field: str, text: str, reason: str, others: dict[str, str]
) -> None:
    """The card says which value has no price and why, and so does the field, whether or not the
    other fields are filled in yet; nothing else is called wrong."""
    answer = await (await browser(world)).get(page(world), params={**others, field: text})
    assert answer.status_code == 200
    card = page_text(answer.text[answer.text.index('id="price"') :].partition("</div>")[0])
    assert reason in card
    assert "to see the price" not in card
    assert re.findall(r'class="fault-text" id="e-(\w+)"', answer.text) == [field]
    assert "Please look at" not in answer.text


async def test_what_is_not_filled_in_yet_is_not_wrong(world: HttpDeployment) -> None:
    """A form that has a good day and nothing else asks for the rest."""
    answer = await (await browser(world)).get(page(world), params={"date": "2027-03-03"})
    assert "Choose a service, a day, a start and the hours to see the price." in answer.text
    assert "fault-text" not in answer.text


async def test_requests_spend_the_general_window_too(world: HttpDeployment) -> None:
    """Every submitted request counts against the general rate limit."""
    limits = evolve(world.ports.policy.limits, general=RateLimit("general", 1, HOUR))
    world.restart(policy=evolve(world.ports.policy, limits=limits))
    client, form = await shown(world)
    assert (await client.post(page(world), data=form)).status_code == 303
    assert (await refused(client, page(world), form)).status_code == 429


async def test_it_is_for_customers_alone(world: HttpDeployment) -> None:
    """Others than customers are told so, and they and forms without the CSRF token are 403."""
    for who in (world.companion, world.admin):
        other = await browser(world, who.id)
        for answer in (
            await other.get(page(world), headers=PEOPLE),
            await other.post(page(world), data=FILLED, headers=PEOPLE),
        ):
            assert answer.status_code == 403
            assert problem(answer).startswith("This page is for customers")
    client, form = await shown(world)
    assert (await client.post(page(world), data={**form, "csrf": "x"})).status_code == 403
    assert await bookings(client) == []


async def test_who_is_signed_out_by_now_signs_in_again(world: HttpDeployment) -> None:
    """A form that is sent after the session has ended is kept until its author signs in."""
    sent = await world.client().post(page(world), data=FILLED)
    assert (sent.status_code, "nothing you typed is lost" in sent.text) == (401, True)
    assert f'action="/account/sign-in?next={page(world)}"' in sent.text


async def test_who_is_gone_meanwhile_can_not_be_requested(world: HttpDeployment) -> None:
    """The form of an unlisted companion is 404, as their page is."""
    client, form = await shown(world)
    await approvals.set_approval(world.ports, world.companion.id, Approval.SUSPENDED)
    gone = await client.post(page(world), data=form, headers=PEOPLE)
    assert (gone.status_code, GONE in gone.text) == (404, True)
    led = await client.post(page(world), data={**form, "duration_hours": "x"})
    assert (await client.get(led.headers["location"])).status_code == 404


GONE = "The address may be mistyped, or what it led to is gone or belongs to somebody else."


async def test_a_single_service_is_chosen_already(world: HttpDeployment) -> None:
    """A single service is preselected; several require a choice."""
    mia = await add_companion(world.store, service_types=("Juggling",))
    client = await browser(world)
    one = (await client.get(f"/companions/{mia.id}/request")).text
    assert '<option value="Juggling" selected>' in one
    assert " selected>" not in (await client.get(page(world))).text


# Instead of somebody who cancelled ------------------------------------------------------
