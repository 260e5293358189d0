"""Webhook endpoints over HTTP, as their owners manage them (SPECIFICATION 4.10, CONTRACT 7)."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from attrs import evolve

from staffbooking_core.webhook_receiver import hex_signature, standard_signature
from tests.http.deployment import World, fields, ok, refused
from tests.http.webhooks.webhook_calls import (
    PATH,
    URL,
    at_endpoint,
    book,
    deliver,
    delivered,
    receive,
    register,
)
from tests.support.builders import DAY, NOW
from tests.support.webhooks import add_endpoint

pytestmark = pytest.mark.anyio

ALL = [
    "booking.created",
    "booking.completed",
    "booking.cancelled",
    "payment.completed",
    "review.created",
]


# Registering ----------------------------------------------------------------------------


async def test_registering_answers_the_record_and_the_secret(world: World) -> None:
    """For all five events where none are named; the secret stands beside the record."""
    made = ok(await world.by_key().post(PATH, json={"url": URL}), 201)
    number, secret = made["webhook"]["id"], made["secret"]
    assert secret.startswith("whsec_")
    assert made == {
        "success": True,
        "webhook": {
            "id": number,
            "url": URL,
            "events": ALL,
            "description": None,
            "active": True,
            "consecutive_failures": 0,
            "disabled_at": None,
            "disabled_reason": None,
            "created_at": "2027-03-01T12:00:00Z",
        },
        "secret": secret,
    }


async def test_events_and_a_description_may_be_given(world: World) -> None:
    """Events come back in their published order; what is unknown is bound to nothing."""
    given = {"events": ["review.created", "booking.created"], "description": "CRM"}
    unknown = {"id": 77, "active": False, "owner_id": world.outsider.id, "secret": "mine"}
    record, secret = await register(world.by_key(), **given, **unknown)
    assert record["events"] == ["booking.created", "review.created"]
    assert (record["description"], record["active"]) == ("CRM", True)
    assert (record["id"] != 77, secret != "mine") == (True, True)


@pytest.mark.parametrize("body", [{}, {"url": None, "events": []}])
async def test_a_url_is_required(world: World, body: dict[str, Any]) -> None:
    """Absent and null are the same."""
    answer = await world.by_key().post(PATH, json=body)
    refused(answer, 400, "missing_field")
    assert fields(answer) == {"url"}


@pytest.mark.parametrize(
    "url",
    [
        7,
        "",
        "hooks.example.com",
        "ftp://hooks.example.com",
        "http://hooks.example.com",
        "https://ada:secret@hooks.example.com",
        "https://hooks.example.com/#top",
        "https://10.0.0.1/in",
        "https://127.0.0.1/in",
        "https://[::ffff:169.254.169.254]/",
        "https://localhost/in",
        f"https://hooks.example.com/{'x' * 2023}",
    ],
)
async def test_a_url_that_may_not_be_registered_is_422(world: World, url: Any) -> None:
    """Wrong forms, and addresses that are not public."""
    answer = await world.by_key().post(PATH, json={"url": url})
    refused(answer, 422, "invalid_field")
    assert fields(answer) == {"url"}


async def test_the_longest_url_passes(world: World) -> None:
    """2,048 characters, a port of its own, a query."""
    url = f"https://8.8.8.8:8443/in?tenant={'x' * 2017}"
    assert len(url) == 2048
    assert (await register(world.by_key(), url=url))[0]["url"] == url


async def test_a_name_of_an_unsafe_address_is_422(world: World) -> None:
    """What the name stands for counts, as far as it can be looked up."""
    world.sender.unsafe.add("intranet.example.com")
    answer = await world.by_key().post(PATH, json={"url": "https://intranet.example.com/"})
    refused(answer, 422, "invalid_field")
    assert fields(answer) == {"url"}


async def test_a_sandbox_may_let_loopback_through(world: World) -> None:
    """Over http too, and nothing else that is not public."""
    world.restart(policy=evolve(world.ports.policy, webhook_allow_insecure=True))
    await register(world.by_key(), url="http://127.0.0.1:9000/in")
    answer = await world.by_key().post(PATH, json={"url": "http://10.0.0.1/"})
    refused(answer, 422, "invalid_field")


@pytest.mark.parametrize(
    ("events", "field"),
    [
        ([], "events"),
        ("booking.created", "events"),
        (["booking.created", "booking.created"], "events"),
        (["booking.created", "booking.accepted"], "events.1"),
        (["webhook.test"], "events.0"),
        ([7], "events.0"),
    ],
)
async def test_wrong_events_are_422(world: World, events: Any, field: str) -> None:
    """None at all, unknown ones and repeated ones."""
    answer = await world.by_key().post(PATH, json={"url": URL, "events": events})
    refused(answer, 422, "invalid_field")
    assert fields(answer) == {field}


async def test_all_faults_are_told_at_once(world: World) -> None:
    """The form of the URL is one of them."""
    body = {"url": "ftp://x.example", "events": ["x"], "description": 5}
    answer = await world.by_key().post(PATH, json=body)
    refused(answer, 422, "invalid_field")
    assert fields(answer) == {"url", "events.0", "description"}


async def test_the_eleventh_is_one_too_many(world: World) -> None:
    """Ten a user; a deleted one makes room, and others have ten of their own."""
    program = world.by_key()
    paths = [await at_endpoint(program) for _ in range(10)]
    refused(await program.post(PATH, json={"url": URL}), 400, "too_many_webhooks")
    await register(world.by_key(await world.new_key(world.outsider)))
    ok(await program.delete(paths[3]))
    await register(program)
    refused(await program.post(PATH, json={"url": URL}), 400, "too_many_webhooks")


# Listing, changing, deleting ------------------------------------------------------------


async def test_the_list_has_ones_own_the_oldest_first(world: World) -> None:
    """Records as they were made, without secrets; whichever way in."""
    program = world.by_key()
    records = [(await register(program, description=name))[0] for name in ("a", "b")]
    await register(world.by_key(await world.new_key(world.outsider)))
    assert ok(await program.get(PATH)) == {"webhooks": records}
    assert ok(await (await world.browser(world.subscriber.id)).get(PATH)) == {"webhooks": records}


async def test_a_change_leaves_what_is_not_given(world: World) -> None:
    """Only what is given changes; the URL can't be."""
    program = world.by_key()
    record, _ = await register(program, description="CRM")
    path = f"{PATH}/{record['id']}"
    same = {"success": True, "webhook": record}
    assert ok(await program.patch(path, json={})) == same
    assert ok(await program.patch(path, json={"url": "https://x.example", "events": None})) == same
    changed = ok(await program.patch(path, json={"events": ["review.created"]}))["webhook"]
    assert changed == {**record, "events": ["review.created"]}
    changed = ok(await program.patch(path, json={"description": ""}))["webhook"]
    assert changed == {**record, "events": ["review.created"], "description": None}
    assert ok(await program.get(PATH)) == {"webhooks": [changed]}


async def test_pausing_holds_and_enabling_sends(world: World) -> None:
    """What came up meanwhile waits, and goes out as soon as the endpoint is active again."""
    program = world.by_key()
    receive(world)
    path = await at_endpoint(program)
    await book(world)
    paused = ok(await program.patch(path, json={"active": False}))["webhook"]
    assert paused["active"] is False
    assert [each["status"] for each in await delivered(program, path)] == ["held"]
    await book(world)
    await deliver(world)
    held = await delivered(program, path)
    assert [(each["status"], each["next_attempt_at"]) for each in held] == [("held", None)] * 2
    ok(await program.patch(path, json={"active": True}))
    pending = await delivered(program, path)
    assert [(each["status"], each["next_attempt_at"]) for each in pending] == [
        ("pending", "2027-03-01T12:00:00Z")
    ] * 2
    await deliver(world)
    assert {each["status"] for each in await delivered(program, path)} == {"succeeded"}


async def test_enabling_makes_a_clean_record(world: World) -> None:
    """Disabled endpoints tell when and why; made active they start anew."""
    hook = await add_endpoint(
        world.store,
        world.subscriber,
        active=False,
        consecutive_failures=10,
        disabled_at=NOW,
        disabled_reason="10 deliveries in a row failed",
    )
    program = world.by_key()
    (record,) = ok(await program.get(PATH))["webhooks"]
    assert record["disabled_at"] == "2027-03-01T12:00:00Z"
    assert (record["disabled_reason"], record["consecutive_failures"]) == (hook.disabled_reason, 10)
    changed = ok(await program.patch(f"{PATH}/{hook.id}", json={"active": True}))["webhook"]
    clean = {"active": True, "consecutive_failures": 0}
    assert changed == {**record, **clean, "disabled_at": None, "disabled_reason": None}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"active": "yes"}, "active"),
        ({"events": []}, "events"),
        ({"description": 1}, "description"),
    ],
)
async def test_a_wrong_change_is_422(world: World, body: Any, field: str) -> None:
    """And changes nothing."""
    program = world.by_key()
    record, _ = await register(program)
    answer = await program.patch(f"{PATH}/{record['id']}", json={"events": ALL[:1], **body})
    refused(answer, 422, "invalid_field")
    assert fields(answer) == {field}
    assert ok(await program.get(PATH)) == {"webhooks": [record]}


async def test_a_deleted_endpoint_is_gone(world: World) -> None:
    """Nothing is sent to it any more, and nothing finds it."""
    program = world.by_key()
    receive(world)
    path = await at_endpoint(program)
    await book(world)
    assert ok(await program.delete(path)) == {"success": True}
    await book(world)
    await deliver(world)
    assert world.sender.sent == []
    assert ok(await program.get(PATH)) == {"webhooks": []}
    refused(await program.delete(path), 404, "not_found")
    refused(await program.get(f"{path}/deliveries"), 404, "not_found")


# Secrets --------------------------------------------------------------------------------


async def signed_by(world: World, client: httpx.AsyncClient, path: str) -> tuple[str, str]:
    """The two signatures of a test that is sent now."""
    ok(await client.post(f"{path}/test"))
    headers = world.sender.sent[-1].headers
    return headers["X-Webhook-Signature"], headers["webhook-signature"]


def signatures(world: World, *secrets: str) -> tuple[str, str]:
    """What the last one sent bears where these secrets sign, the published one first."""
    sent = world.sender.sent[-1]
    number, at = sent.headers["webhook-id"], int(sent.headers["webhook-timestamp"])
    standard = [standard_signature(secret, number, at, sent.body) for secret in secrets]
    return hex_signature(secrets[0], sent.body), " ".join(standard)


async def test_a_secret_is_rotated(world: World) -> None:
    """For a day the published header stays with the old one, and both sign the other."""
    program = world.by_key()
    record, old = await register(program)
    path = f"{PATH}/{record['id']}"
    answer = ok(await program.post(f"{path}/rotate-secret"))
    new = answer["secret"]
    until = "2027-03-02T12:00:00Z"
    assert answer == {"success": True, "secret": new, "previous_valid_until": until}
    assert (new.startswith("whsec_"), new != old) == (True, True)
    assert await signed_by(world, program, path) == signatures(world, old, new)
    world.clock.advance(DAY)
    assert await signed_by(world, program, path) == signatures(world, new)


async def test_a_new_secret_is_activated(world: World) -> None:
    """From then on it signs alone, and there is nothing left to activate."""
    program = world.by_key()
    record, _ = await register(program)
    path = f"{PATH}/{record['id']}"
    new = ok(await program.post(f"{path}/rotate-secret"))["secret"]
    answer = ok(await program.post(f"{path}/activate-secret"))
    assert answer == {"success": True, "webhook": record}
    assert await signed_by(world, program, path) == signatures(world, new)
    refused(await program.post(f"{path}/activate-secret"), 400, "no_rotation")


async def test_a_secret_is_shown_once(world: World) -> None:
    """No other answer has it, nor one that replaced it."""
    world.raise_limits()
    receive(world)
    program = world.by_key()
    record, old = await register(program)
    path = f"{PATH}/{record['id']}"
    await book(world)
    await deliver(world)
    new = ok(await program.post(f"{path}/rotate-secret"))["secret"]
    (delivery,) = await delivered(program, path)
    answers = [
        await program.get(PATH),
        await program.patch(path, json={"description": "CRM"}),
        await program.post(f"{path}/test"),
        await program.get(f"{path}/deliveries"),
        await program.post(f"{path}/deliveries/{delivery['id']}/redeliver"),
        await program.get("/api/events"),
        await program.post(f"{path}/activate-secret"),
        await program.get(PATH),
        await program.delete(path),
        await world.client().get("/metrics"),
        await world.client().get("/openapi.json"),
    ]
    assert {answer.status_code for answer in answers} == {200}
    told = "".join(answer.text for answer in answers) + repr(world.ports) + repr(world.sender.sent)
    for secret in (old, new):
        assert secret.removeprefix("whsec_") not in told
