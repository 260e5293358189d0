"""Tests of the conversation pages: reading, replying and access."""

from __future__ import annotations

import html
import re

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.content.filter import DefaultContentFilter
from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    NOW,
    add_booking,
    add_companion,
    add_user,
)
from staffbooking_adapters.testing.builders_messages import add_group, save_group_members
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.notifications.notifications import NotificationKind
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.usecases import due_work
from staffbooking_core.usecases.messaging import channel
from tests.http.deployment import BASE_URL, HttpDeployment
from tests.http.messaging.message_calls import (
    JsonRecord,
    list_conversations,
    message_texts,
    send_message,
    sign_in_parties,
)
from tests.http.pages.test_bookings import PEOPLE
from tests.support.html_pages import page_text

pytestmark = pytest.mark.anyio

LIST = "/conversations"


async def met(
    world: HttpDeployment, *words: str
) -> tuple[JsonRecord, httpx.AsyncClient, httpx.AsyncClient]:
    """The conversation of customer and companion with one message, and both clients."""
    await add_booking(world.store, world.companion, world.customer)
    customer, staff = await sign_in_parties(world)
    for each in words:
        await send_message(staff, world.customer.id, each)
    [conversation] = await list_conversations(customer)
    return conversation, customer, staff


def page(conversation: JsonRecord) -> str:
    return f"{LIST}/{conversation['id']}"


async def write(client: httpx.AsyncClient, path: str, text: str, **more: str) -> httpx.Response:
    """Submit the message form of a page, without the API's header."""
    shown = (await client.get(path)).text
    form = shown[shown.index(f'method="post" action="{path}"') :]
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form))
    token = client.headers.pop("x-csrf-token")
    answer = await client.post(path, data={**hidden, "content": text, **more})
    client.headers["x-csrf-token"] = token
    return answer


def texts(answer: httpx.Response) -> list[str]:
    """The message texts that a page shows."""
    said = re.findall(r'<p class="text" dir="auto">(.*?)</p>', answer.text, re.DOTALL)
    return [text for text in said if text]  # The pattern for scripts is empty.


def titles(answer: httpx.Response) -> list[str]:
    """The titles of the conversations in the list of a page."""
    return re.findall(r"<strong[^>]*><bdi>(.*?)</bdi></strong>", answer.text)


def heading(answer: httpx.Response) -> str:
    """What stands above the messages of a conversation, as text."""
    [part] = re.findall(r'<header class="chat-head">.*?</header>', answer.text, re.DOTALL)
    return page_text(part)


def about(answer: httpx.Response) -> str:
    """The bookings above the messages of a conversation, as text."""
    found = re.findall(
        r'<div class="chat-about">(.*?)<div class="chat-log"', answer.text, re.DOTALL
    )
    return page_text("".join(found))


# Reading --------------------------------------------------------------------------------


async def test_people_see_who_wrote_to_them(each_world: HttpDeployment) -> None:
    """Conversations are listed newest first with last message, unread count and link."""
    conversation, customer, _ = await met(each_world, "Hello", "Are you there?")
    other = await add_companion(each_world.store, first_name="Noa")
    await add_booking(each_world.store, other, each_world.customer)
    shown = await customer.get(LIST)
    assert titles(shown) == ["Noa Lindqvist", "Mia Lindqvist"]
    assert "Are you there? 2 new" in page_text(shown.text)
    assert f'href="{page(conversation)}#last"' in shown.text


async def test_a_conversation_is_read_on_its_page(each_world: HttpDeployment) -> None:
    """Messages are shown oldest first and are read once shown."""
    conversation, customer, _ = await met(each_world, "Hello", "Are you there?")
    shown = await customer.get(page(conversation))
    assert texts(shown) == ["Hello", "Are you there?"]
    assert conversation["booking_code"] in shown.text
    assert "2 new" not in page_text((await customer.get(LIST)).text)


async def test_to_look_for_new_messages_loads_the_page_again(world: HttpDeployment) -> None:
    """The refresh link has no fragment, so that browsers reload the page."""
    conversation, customer, _ = await met(world)
    shown = (await customer.get(page(conversation))).text
    assert f'<a href="{page(conversation)}">Look for new messages</a>' in shown


async def test_what_people_write_is_text(world: HttpDeployment) -> None:
    """Message text is escaped, keeps its line breaks and follows its own direction."""
    words = '<b>Hello</b> & "you"\n\n  </p><script>'
    conversation, customer, _ = await met(world, words)
    for path in (LIST, page(conversation), "/"):
        shown = await customer.get(path)
        assert "<b>" not in shown.text
        assert "<script>" not in shown.text
    assert [html.unescape(each) for each in texts(await customer.get(page(conversation)))] == [
        words
    ]


async def test_old_messages_are_a_link_away(world: HttpDeployment) -> None:
    """A page has 50 messages; older pages link back to the form."""
    conversation, customer, _ = await met(world, *(f"No. {number}" for number in range(52)))
    shown = await customer.get(page(conversation))
    assert len(texts(shown)) == 50
    [older] = re.findall(r'href="([^"]*\?before=\d+)"', shown.text)
    before = await customer.get(older)
    assert texts(before) == ["No. 0", "No. 1"]
    assert "<textarea" not in before.text
    assert f'href="{page(conversation)}#last"' in before.text
    assert "?before=" not in before.text


async def test_conversations_come_in_pages(world: HttpDeployment) -> None:
    """A page has 20 conversations with links both ways; an empty page says so."""
    for _ in range(21):
        other = await add_companion(world.store)
        await add_booking(world.store, other, world.customer)
    customer = await world.signed_in_client(world.customer.id)
    first, second = [await customer.get(f"{LIST}{query}") for query in ("", "?page=2")]
    assert [len(titles(each)) for each in (first, second)] == [20, 1]
    assert ('href="?page=2"' in first.text, 'href="?page=0"' in first.text) == (True, False)
    assert ('href="?page=1"' in second.text, 'href="?page=3"' in second.text) == (True, False)
    assert "There are no more" in (await customer.get(f"{LIST}?page=3")).text
    for wrong in ("0", "x", "-1"):
        assert (await customer.get(f"{LIST}?page={wrong}")).status_code == 422
    stranger = await world.signed_in_client(world.stranger.id)
    assert "A conversation begins with a booking." in (await stranger.get(LIST)).text


async def test_strangers_find_nothing(world: HttpDeployment) -> None:
    """A stranger gets the same 404 page for existing and missing conversations."""
    conversation, _, _ = await met(world, "Hello")
    stranger = await world.signed_in_client(world.stranger.id)
    token = stranger.headers["x-csrf-token"]
    for path in (page(conversation), f"{LIST}/999", f"{LIST}/x", f"{LIST}/0"):
        shown = await stranger.get(path, headers=PEOPLE)
        assert (shown.status_code, "find that page" in shown.text) == (404, True)
        assert 'action="/account/sign-out"' in shown.text
        for text in ("Hello", ""):
            sent = await stranger.post(path, data={"csrf": token, "content": text})
            assert sent.status_code == 404


async def test_who_is_signed_out_is_led_back_by_the_sign_in(world: HttpDeployment) -> None:
    """Each of these pages leads signed-out visitors to sign-in and back."""
    conversation, _, _ = await met(world)
    client = world.client()
    for path in (LIST, page(conversation), f"{LIST}/with/{world.companion.id}"):
        asked = await client.get(path)
        assert (asked.status_code, asked.next_request and asked.next_request.url.path) == (
            303,
            "/account/sign-in",
        )
        assert httpx.URL(asked.headers["location"]).params["next"] == path


# What it is about -----------------------------------------------------------------------


async def test_the_booking_ahead_heads_a_conversation(each_world: HttpDeployment) -> None:
    """Of the bookings that two people share, the next one that holds comes first, not the newest
    one if that was cancelled; others are named below."""
    pair = (each_world.companion, each_world.customer)
    ahead = await add_booking(
        each_world.store,
        *pair,
        starts_at=NOW + 2 * DAY,
        ends_at=NOW + 2 * DAY + 4 * HOUR,
    )
    cancelled = await add_booking(
        each_world.store,
        *pair,
        starts_at=NOW + DAY,
        ends_at=NOW + DAY + 4 * HOUR,
        status=BookingStatus.CANCELLED,
    )
    await add_booking(
        each_world.store, each_world.companion, await add_user(each_world.store), code="STRANGERS"
    )
    for browser in await sign_in_parties(each_world):
        [conversation] = [
            each
            for each in await list_conversations(browser)
            if each["booking_code"] == cancelled.code
        ]
        words = about(await browser.get(page(conversation)))
        assert words.index(ahead.code) < words.index("1 more booking")
        assert words.index("1 more booking") < words.index(cancelled.code)
        assert "STRANGERS" not in words


async def test_a_cancelled_booking_heads_no_conversation(world: HttpDeployment) -> None:
    """Where no booking holds, a conversation is headed by none; earlier ones can be looked up."""
    booking = await add_booking(
        world.store, world.companion, world.customer, status=BookingStatus.CANCELLED
    )
    customer, _ = await sign_in_parties(world)
    [conversation] = await list_conversations(customer)
    words = about(await customer.get(page(conversation)))
    assert words.startswith("1 earlier booking")
    assert booking.code in words


async def test_faces_are_shown(world: HttpDeployment) -> None:
    """A staff member's photo stands in the list and above the conversation, else initials."""
    conversation, customer, staff = await met(world, "Hello")
    companion = evolve(world.companion, profile_photo="media/face.webp")
    await world.store.run_transaction(lambda tx: tx.companions.save_companion(companion))
    shown = (await customer.get(page(conversation))).text
    assert shown.count('src="/media/face.webp"') == 2
    assert ">AO</span>" in (await staff.get(page(conversation))).text


async def test_unread_messages_are_counted_for_scripts(each_world: HttpDeployment) -> None:
    """The number of unread messages of all conversations comes with the last message's id."""
    conversation, customer, staff = await met(each_world, "Hello", "Are you there?")
    counted = (await customer.get(f"{LIST}/unread")).json()
    assert counted["unread"] == 2
    assert counted["last_message_id"] == conversation["last_message"]["id"]
    assert (await staff.get(f"{LIST}/unread")).json()["unread"] == 0
    await customer.get(page(conversation))
    assert (await customer.get(f"{LIST}/unread")).json()["unread"] == 0
    nobody = await each_world.client().get(f"{LIST}/unread")
    assert (nobody.status_code, nobody.json()["code"]) == (401, "unauthenticated")


async def test_a_message_is_read_once_the_other_has_seen_it(world: HttpDeployment) -> None:
    """Below one's own last message stands whether it was read."""
    conversation, customer, staff = await met(world)
    await send_message(staff, world.customer.id, "Hello")
    receipt = re.compile(r"data-receipt>(\w+)<")
    assert receipt.findall((await staff.get(page(conversation))).text) == ["Sent"]
    await customer.get(page(conversation))
    assert receipt.findall((await staff.get(page(conversation))).text) == ["Read"]
    assert receipt.findall((await customer.get(page(conversation))).text) == []


# Answering ------------------------------------------------------------------------------


async def test_people_answer_by_a_form(each_world: HttpDeployment) -> None:
    """Sending redirects to the last message, and the other party receives it."""
    conversation, customer, staff = await met(each_world, "Hello")
    sent = await write(customer, page(conversation), "Yes,\r\nI am.")
    assert (sent.status_code, sent.headers["location"]) == (303, f"{page(conversation)}#last")
    assert await message_texts(staff, conversation["id"]) == ["Hello", "Yes,\nI am."]
    assert texts(await staff.get(page(conversation))) == ["Hello", "Yes,\nI am."]


async def test_a_button_pressed_twice_sends_once(each_world: HttpDeployment) -> None:
    """A form sent twice makes one message; other text or a later page makes another."""
    conversation, customer, staff = await met(each_world, "Hello")
    path = page(conversation)
    shown = (await customer.get(path)).text
    [after] = re.findall(r'name="after" value="(\d+)"', shown)
    for words in ("Yes", "Yes", "No"):
        assert (await write(customer, path, words, after=after)).status_code == 303
    assert (await write(customer, path, "Yes")).status_code == 303
    assert await message_texts(staff, conversation["id"]) == ["Hello", "Yes", "No", "Yes"]


async def test_five_thousand_characters_are_five_thousand(world: HttpDeployment) -> None:
    """A line break counts as one character, however browsers send it."""
    conversation, customer, _ = await met(world)
    text = "x\r\n" * 2500
    assert (await write(customer, page(conversation), text)).status_code == 303
    assert await message_texts(customer, conversation["id"]) == ["x\n" * 2500]
    more = await write(customer, page(conversation), text + "x")
    assert more.status_code == 422
    assert "Use at most 5000 characters." in page_text(more.text)


async def test_what_is_blocked_stays_in_the_form(world: HttpDeployment) -> None:
    """A blocked message stays in the form with the reason and is not sent."""
    world.restart(content_filter=DefaultContentFilter(["Hôtel Lux"]))
    conversation, customer, staff = await met(world)
    words = 'Write to\n<a> "ada@example.com"'
    refused = await write(customer, page(conversation), words)
    assert refused.status_code == 422
    assert "can be shared once the booking is paid" in page_text(refused.text)
    kept = re.search(r"<textarea [^>]*>\n(.*?)</textarea>", refused.text, re.DOTALL)
    assert kept
    assert html.unescape(kept[1]) == words
    assert await message_texts(staff, conversation["id"]) == []


@pytest.mark.parametrize(("text", "status"), [("", 400), (" \r\n", 422), ("\x07x", 422)])
async def test_what_is_no_message_is_told_on_the_page(
    world: HttpDeployment, text: str, status: int
) -> None:
    """An invalid message is an error on the page, which keeps the form."""
    conversation, customer, staff = await met(world)
    refused = await write(customer, page(conversation), text)
    assert refused.status_code == status
    assert "<textarea" in refused.text
    assert await message_texts(staff, conversation["id"]) == []


async def test_a_spent_window_loses_no_words(world: HttpDeployment) -> None:
    """Over the rate limit, the form shows the retry time and keeps the text."""
    conversation, customer, _ = await met(world)
    limits = evolve(world.ports.policy.limits, general=RateLimit("general", 2, HOUR))
    world.restart(policy=evolve(world.ports.policy, limits=limits))
    customer = await world.signed_in_client(world.customer.id)
    assert (await write(customer, page(conversation), "One")).status_code == 303
    refused = await write(customer, page(conversation), "Two")
    assert (refused.status_code, "retry-after" in refused.headers) == (429, True)
    assert "Try again in 60 minutes." in refused.text
    assert ">\nTwo</textarea>" in refused.text


async def test_a_form_of_somebody_else_sends_nothing(world: HttpDeployment) -> None:
    """A form without the session's CSRF token is 403."""
    conversation, customer, staff = await met(world)
    refused = await write(customer, page(conversation), "Hello", csrf="x")
    assert (refused.status_code, refused.json()["code"]) == (403, "csrf_failed")
    assert await message_texts(staff, conversation["id"]) == []


# Who is there ---------------------------------------------------------------------------


async def test_who_left_an_event_reads_and_says_nothing(world: HttpDeployment) -> None:
    """A former member sees no form, and a kept form is rejected on the page."""
    group = await add_group(world.store, customer_id=world.customer.id)
    stays, left = group.staff_ids
    await save_group_members(world.store, world.customer.id, [stays])
    browser = await world.signed_in_client(left)
    path = f"{LIST}/{group.id}"
    shown = (await browser.get(path)).text
    assert "You are not in this conversation any more" in shown
    assert "<textarea" not in shown
    given = {"csrf": browser.headers["x-csrf-token"], "content": "Hello"}
    sent = await browser.post(path, data=given)
    assert (sent.status_code, "You are not in this" in sent.text) == (403, True)


async def test_people_see_who_is_there(world: HttpDeployment) -> None:
    """The page shows whether the other user, or which group members, are online."""
    conversation, customer, _ = await met(world)
    group = await add_group(world.store, world.companion, await add_companion(world.store))
    await channel.heartbeat(world.ports, "node", {}, is_recount=True)
    shown = await customer.get(page(conversation))
    assert "Online" not in heading(shown)
    await channel.connect(world.ports, world.companion.id, "node")
    shown = await customer.get(page(conversation))
    assert "Online" in heading(shown)
    booker = await world.signed_in_client(group.customer_id)
    shown = await booker.get(f"{LIST}/{group.id}")
    faces = re.findall(r'data-presence="(\d+)"( data-online)?', shown.text)
    assert {int(number) for number, online in faces if online} == {world.companion.id}
    assert f"{group.event_ref} Mia , Mia" in heading(shown)


async def test_a_booking_leads_to_its_conversation(each_world: HttpDeployment) -> None:
    """A booking links each party, and nobody else, to their conversation."""
    booking = await add_booking(each_world.store, each_world.companion, each_world.customer)
    customer, staff = await sign_in_parties(each_world)
    led = set()
    for browser, other in ((customer, booking.companion_id), (staff, booking.customer_id)):
        path = f"{LIST}/with/{other}"
        assert f'href="{path}"' in (await browser.get(f"/bookings/{booking.id}/return")).text
        led.add((await browser.get(path)).headers["location"])
    [conversation] = await list_conversations(customer)
    assert led == {f"{page(conversation)}#last"}
    admin = await each_world.signed_in_client(each_world.admin.id)
    assert f"{LIST}/with" not in (await admin.get(f"/bookings/{booking.id}/return")).text


async def test_nobody_writes_to_strangers(world: HttpDeployment) -> None:
    """Users without a shared booking get an error, and one's own id leads to the list."""
    stranger = await world.signed_in_client(world.stranger.id)
    refused = await stranger.get(f"{LIST}/with/{world.companion.id}", headers=PEOPLE)
    assert (refused.status_code, "You share no booking" in refused.text) == (403, True)
    assert (await stranger.get(f"{LIST}/with/999")).status_code == 404
    own = await stranger.get(f"{LIST}/with/{world.stranger.id}")
    assert own.headers["location"] == LIST


async def test_a_mail_leads_to_what_was_written(each_world: HttpDeployment) -> None:
    """The link of an email leads through sign-in to the message."""
    conversation, _, _ = await met(each_world, "Hello")
    each_world.clock.advance(each_world.ports.policy.unread_notification_delay)
    await due_work.run_all_due(each_world.ports)
    [letter] = [
        each for each in each_world.notifier.emails if each.kind is NotificationKind.NEW_MESSAGE
    ]
    assert letter.url == f"{BASE_URL}{page(conversation)}"
    customer = await each_world.signed_in_client(each_world.customer.id)
    assert texts(await customer.get(letter.url)) == ["Hello"]


async def test_the_interface_keeps_its_paths(world: HttpDeployment) -> None:
    """API paths return JSON to browsers too."""
    conversation, customer, _ = await met(world, "Hello")
    for path in ("/messages", f"/messages/conversation/{conversation['id']}"):
        answer = await customer.get(path, headers=PEOPLE)
        assert answer.headers["content-type"] == "application/json"


async def test_a_name_is_text_everywhere(world: HttpDeployment) -> None:
    """User names are escaped on all of these pages."""
    marked = await add_user(world.store, first_name="<i>Ada</i>")
    booking = await add_booking(
        world.store, world.companion, marked, customer_name="<i>Ada</i> Okoro"
    )
    staff = await world.signed_in_client(world.companion.id)
    led = (await staff.get(f"{LIST}/with/{marked.id}")).headers["location"]
    for path in (LIST, led.partition("#")[0], "/", f"/bookings/{booking.id}/return"):
        shown = (await staff.get(path)).text
        assert "&lt;i&gt;Ada" in shown
        assert "<i>" not in shown
