"""Webhook endpoints over HTTP: registering, changing, secrets (SPECIFICATION 4.10, CONTRACT 7)."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, NOW
from staffbooking_adapters.testing.builders_webhooks import add_endpoint
from staffbooking_core.webhook_receiver import hex_signature, standard_signature
from tests.http.deployment import HttpDeployment, error_body, error_fields, json_body
from tests.http.webhooks.webhook_calls import (
    RECEIVER_URL,
    WEBHOOKS_PATH,
    add_endpoint_path,
    deliver_due_events,
    list_deliveries,
    register_endpoint,
    request_booking,
    set_receiver_status,
)

pytestmark = pytest.mark.anyio

ALL = [
    "booking.created",
    "booking.completed",
    "booking.cancelled",
    "payment.completed",
    "review.created",
]


# Registering ----------------------------------------------------------------------------


async def test_registering_answers_the_record_and_the_secret(world: HttpDeployment) -> None:
    """Registering returns the record, for all five events by default, and the secret."""
    made = json_body(
        await world.client_with_key().post(WEBHOOKS_PATH, json={"url": RECEIVER_URL}), 201
    )
    number, secret = made["webhook"]["id"], made["secret"]
    assert secret.startswith("whsec_")
    assert made == {
        "success": True,
        "webhook": {
            "id": number,
            "url": RECEIVER_URL,
            "events": ALL,
            "description": None,
            "ordered": False,
            "active": True,
            "consecutive_failures": 0,
            "disabled_at": None,
            "disabled_reason": None,
            "created_at": "2027-03-01T12:00:00Z",
        },
        "secret": secret,
    }


async def test_events_and_a_description_may_be_given(world: HttpDeployment) -> None:
    """Events are returned in their published order with the description, and unknown fields are
    ignored."""
    given = {"events": ["review.created", "booking.created"], "description": "CRM"}
    unknown = {"id": 77, "active": False, "owner_id": world.outsider.id, "secret": "mine"}
    record, secret = await register_endpoint(
        world.client_with_key(), ordered=True, **given, **unknown
    )
    assert record["events"] == ["booking.created", "review.created"]
    assert (record["description"], record["active"], record["ordered"]) == ("CRM", True, True)
    assert (record["id"] != 77, secret != "mine") == (True, True)


@pytest.mark.parametrize("body", [{}, {"url": None, "events": []}])
async def test_a_url_is_required(world: HttpDeployment, body: dict[str, Any]) -> None:
    """An absent or null URL is 400."""
    answer = await world.client_with_key().post(WEBHOOKS_PATH, json=body)
    error_body(answer, 400, "missing_field")
    assert error_fields(answer) == {"url"}


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
async def test_a_url_that_may_not_be_registered_is_422(world: HttpDeployment, url: Any) -> None:
    """A malformed or insecure URL, or one of a non-public address, is 422."""
    answer = await world.client_with_key().post(WEBHOOKS_PATH, json={"url": url})
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {"url"}


async def test_the_longest_url_passes(world: HttpDeployment) -> None:
    """A URL of 2,048 characters with a port and a query is accepted."""
    url = f"https://8.8.8.8:8443/in?tenant={'x' * 2017}"
    assert len(url) == 2048
    assert (await register_endpoint(world.client_with_key(), url=url))[0]["url"] == url


async def test_a_name_of_an_unsafe_address_is_422(world: HttpDeployment) -> None:
    """A URL whose host name has an unsafe address is 422."""
    world.sender.unsafe_hosts.add("intranet.example.com")
    answer = await world.client_with_key().post(
        WEBHOOKS_PATH, json={"url": "https://intranet.example.com/"}
    )
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {"url"}


async def test_a_sandbox_may_let_loopback_through(world: HttpDeployment) -> None:
    """With `webhook_allow_insecure` http to loopback is accepted, and a private address is 422."""
    world.restart(policy=evolve(world.ports.policy, webhook_allow_insecure=True))
    await register_endpoint(world.client_with_key(), url="http://127.0.0.1:9000/in")
    answer = await world.client_with_key().post(WEBHOOKS_PATH, json={"url": "http://10.0.0.1/"})
    error_body(answer, 422, "invalid_field")


@pytest.mark.parametrize(
    ("events", "field"),
    [
        ([], "events"),
        ("booking.created", "events"),
        (["booking.created", "booking.created"], "events"),
        (["booking.created", "booking.declined"], "events.1"),
        (["webhook.test"], "events.0"),
        ([7], "events.0"),
    ],
)
async def test_wrong_events_are_422(world: HttpDeployment, events: Any, field: str) -> None:
    """Empty, unknown or repeated events are 422."""
    answer = await world.client_with_key().post(
        WEBHOOKS_PATH, json={"url": RECEIVER_URL, "events": events}
    )
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {field}


async def test_all_invalid_fields_are_listed(world: HttpDeployment) -> None:
    """A malformed URL is listed with all other invalid fields."""
    body = {"url": "ftp://x.example", "events": ["x"], "description": 5}
    answer = await world.client_with_key().post(WEBHOOKS_PATH, json=body)
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {"url", "events.0", "description"}


async def test_an_eleventh_endpoint_is_refused(world: HttpDeployment) -> None:
    """A user has at most ten endpoints; a deleted one makes room, and other users have their own
    limit."""
    program = world.client_with_key()
    paths = [await add_endpoint_path(program) for _ in range(10)]
    error_body(
        await program.post(WEBHOOKS_PATH, json={"url": RECEIVER_URL}), 400, "too_many_webhooks"
    )
    await register_endpoint(world.client_with_key(await world.add_api_key(world.outsider)))
    json_body(await program.delete(paths[3]))
    await register_endpoint(program)
    error_body(
        await program.post(WEBHOOKS_PATH, json={"url": RECEIVER_URL}), 400, "too_many_webhooks"
    )


# Listing, changing, deleting ------------------------------------------------------------


async def test_own_endpoints_are_listed_oldest_first(world: HttpDeployment) -> None:
    """Keys and sessions list the user's own records, oldest first."""
    program = world.client_with_key()
    records = [(await register_endpoint(program, description=name))[0] for name in ("a", "b")]
    await register_endpoint(world.client_with_key(await world.add_api_key(world.outsider)))
    assert json_body(await program.get(WEBHOOKS_PATH)) == {"webhooks": records}
    assert json_body(
        await (await world.signed_in_client(world.subscriber.id)).get(WEBHOOKS_PATH)
    ) == {"webhooks": records}


async def test_a_change_leaves_what_is_not_given(world: HttpDeployment) -> None:
    """A change affects the given fields only, and never the URL."""
    program = world.client_with_key()
    record, _ = await register_endpoint(program, description="CRM")
    path = f"{WEBHOOKS_PATH}/{record['id']}"
    same = {"success": True, "webhook": record}
    assert json_body(await program.patch(path, json={})) == same
    assert (
        json_body(await program.patch(path, json={"url": "https://x.example", "events": None}))
        == same
    )
    changed = json_body(await program.patch(path, json={"events": ["review.created"]}))["webhook"]
    assert changed == {**record, "events": ["review.created"]}
    changed = json_body(await program.patch(path, json={"description": ""}))["webhook"]
    assert changed == {**record, "events": ["review.created"], "description": None}
    changed = json_body(await program.patch(path, json={"ordered": True}))["webhook"]
    assert changed == {**record, "events": changed["events"], "description": None, "ordered": True}
    assert json_body(await program.get(WEBHOOKS_PATH)) == {"webhooks": [changed]}


async def test_pausing_holds_and_enabling_sends(world: HttpDeployment) -> None:
    """Deliveries of a paused endpoint are held, and sent once it is active again."""
    program = world.client_with_key()
    set_receiver_status(world)
    path = await add_endpoint_path(program)
    await request_booking(world)
    paused = json_body(await program.patch(path, json={"active": False}))["webhook"]
    assert paused["active"] is False
    assert [each["status"] for each in await list_deliveries(program, path)] == ["held"]
    await request_booking(world)
    await deliver_due_events(world)
    held = await list_deliveries(program, path)
    assert [(each["status"], each["next_attempt_at"]) for each in held] == [("held", None)] * 2
    json_body(await program.patch(path, json={"active": True}))
    pending = await list_deliveries(program, path)
    assert [(each["status"], each["next_attempt_at"]) for each in pending] == [
        ("pending", "2027-03-01T12:00:00Z")
    ] * 2
    await deliver_due_events(world)
    assert {each["status"] for each in await list_deliveries(program, path)} == {"succeeded"}


async def test_enabling_clears_the_failures(world: HttpDeployment) -> None:
    """A disabled endpoint has a time and a reason, and enabling clears them and the failures."""
    hook = await add_endpoint(
        world.store,
        world.subscriber,
        active=False,
        consecutive_failures=10,
        disabled_at=NOW,
        disabled_reason="10 deliveries in a row failed",
    )
    program = world.client_with_key()
    (record,) = json_body(await program.get(WEBHOOKS_PATH))["webhooks"]
    assert record["disabled_at"] == "2027-03-01T12:00:00Z"
    assert (record["disabled_reason"], record["consecutive_failures"]) == (hook.disabled_reason, 10)
    changed = json_body(await program.patch(f"{WEBHOOKS_PATH}/{hook.id}", json={"active": True}))[
        "webhook"
    ]
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
async def test_a_wrong_change_is_422(world: HttpDeployment, body: Any, field: str) -> None:
    """An invalid change is 422 and changes nothing."""
    program = world.client_with_key()
    record, _ = await register_endpoint(program)
    answer = await program.patch(
        f"{WEBHOOKS_PATH}/{record['id']}", json={"events": ALL[:1], **body}
    )
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {field}
    assert json_body(await program.get(WEBHOOKS_PATH)) == {"webhooks": [record]}


async def test_a_deleted_endpoint_is_gone(world: HttpDeployment) -> None:
    """A deleted endpoint is neither listed nor sent anything."""
    program = world.client_with_key()
    set_receiver_status(world)
    path = await add_endpoint_path(program)
    await request_booking(world)
    assert json_body(await program.delete(path)) == {"success": True}
    await request_booking(world)
    await deliver_due_events(world)
    assert world.sender.sent == []
    assert json_body(await program.get(WEBHOOKS_PATH)) == {"webhooks": []}
    error_body(await program.delete(path), 404, "not_found")
    error_body(await program.get(f"{path}/deliveries"), 404, "not_found")


# Secrets --------------------------------------------------------------------------------


async def signed_by(world: HttpDeployment, client: httpx.AsyncClient, path: str) -> tuple[str, str]:
    """The two signature headers of a test that is sent now."""
    json_body(await client.post(f"{path}/test"))
    headers = world.sender.sent[-1].headers
    return headers["X-Webhook-Signature"], headers["webhook-signature"]


def signatures(world: HttpDeployment, *secrets: str) -> tuple[str, str]:
    """The expected signature headers of the last request, for these secrets in order."""
    sent = world.sender.sent[-1]
    number, at = sent.headers["webhook-id"], int(sent.headers["webhook-timestamp"])
    standard = [standard_signature(secret, number, at, sent.body) for secret in secrets]
    return hex_signature(secrets[0], sent.body), " ".join(standard)


async def test_a_secret_is_rotated(world: HttpDeployment) -> None:
    """For a day after a rotation the old secret signs the hex header and both secrets the standard
    one."""
    program = world.client_with_key()
    record, old = await register_endpoint(program)
    path = f"{WEBHOOKS_PATH}/{record['id']}"
    answer = json_body(await program.post(f"{path}/rotate-secret"))
    new = answer["secret"]
    until = "2027-03-02T12:00:00Z"
    assert answer == {"success": True, "secret": new, "previous_valid_until": until}
    assert (new.startswith("whsec_"), new != old) == (True, True)
    assert await signed_by(world, program, path) == signatures(world, old, new)
    world.clock.advance(DAY)
    assert await signed_by(world, program, path) == signatures(world, new)


async def test_a_new_secret_is_activated(world: HttpDeployment) -> None:
    """An activated secret signs alone, and a second activation is 400."""
    program = world.client_with_key()
    record, _ = await register_endpoint(program)
    path = f"{WEBHOOKS_PATH}/{record['id']}"
    new = json_body(await program.post(f"{path}/rotate-secret"))["secret"]
    answer = json_body(await program.post(f"{path}/activate-secret"))
    assert answer == {"success": True, "webhook": record}
    assert await signed_by(world, program, path) == signatures(world, new)
    error_body(await program.post(f"{path}/activate-secret"), 400, "no_rotation")


async def test_a_secret_is_shown_once(world: HttpDeployment) -> None:
    """No response, repr or request has a secret but the response that creates it."""
    world.raise_limits()
    set_receiver_status(world)
    program = world.client_with_key()
    record, old = await register_endpoint(program)
    path = f"{WEBHOOKS_PATH}/{record['id']}"
    await request_booking(world)
    await deliver_due_events(world)
    new = json_body(await program.post(f"{path}/rotate-secret"))["secret"]
    (delivery,) = await list_deliveries(program, path)
    answers = [
        await program.get(WEBHOOKS_PATH),
        await program.patch(path, json={"description": "CRM"}),
        await program.post(f"{path}/test"),
        await program.get(f"{path}/deliveries"),
        await program.post(f"{path}/deliveries/{delivery['id']}/redeliver"),
        await program.get("/api/events"),
        await program.post(f"{path}/activate-secret"),
        await program.get(WEBHOOKS_PATH),
        await program.delete(path),
        await world.client().get("/metrics"),
        await world.client().get("/openapi.json"),
    ]
    assert {answer.status_code for answer in answers} == {200}
    told = "".join(answer.text for answer in answers) + repr(world.ports) + repr(world.sender.sent)
    for secret in (old, new):
        assert secret.removeprefix("whsec_") not in told
