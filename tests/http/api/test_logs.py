"""The access log, security events and request ids over HTTP (CONTRACT 10)."""

from __future__ import annotations

import io
import json
import logging
from functools import partial
from ipaddress import ip_network

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.logs import ACCESS_LOGGER_NAME, render_access_line
from staffbooking_adapters.notify.log import LogNotifier
from staffbooking_adapters.settings_logs import LogFormat
from staffbooking_core.ports import Email
from staffbooking_core.request_id import CURRENT_REQUEST_ID
from staffbooking_core.usecases.notifications import notifications
from staffbooking_http.api.access_log import AccessLog, redact_path
from staffbooking_http.app import create_app
from staffbooking_http.pages.app import page_handlers, page_methods
from staffbooking_http.routes import ENDPOINTS_BY_TAG
from tests.http.deployment import TEST_PASSWORD, HttpDeployment, error_body, json_body

pytestmark = pytest.mark.anyio

PROXY = "10.0.0.7"
TRACE = "0af7651916cd43dd8448eb211c80319c"


class LoggedDeployment:
    """The application of a deployment with an access log in memory."""

    def __init__(self, world: HttpDeployment) -> None:
        self.stream = io.StringIO()
        render = partial(render_access_line, LogFormat.JSON)
        self.log = AccessLog(render, world.clock.wall, self.stream)
        world.__dict__["app"] = create_app(world.ports, access_log=self.log)

    def lines(self) -> list[dict[str, object]]:
        self.log.flush()
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


@pytest.fixture
def logged(world: HttpDeployment, caplog: pytest.LogCaptureFixture) -> LoggedDeployment:
    caplog.set_level(logging.INFO, ACCESS_LOGGER_NAME)
    return LoggedDeployment(world)


async def test_a_request_has_an_access_line(
    world: HttpDeployment, logged: LoggedDeployment
) -> None:
    """The line of a request has its id, method, path without query, status, size and caller."""
    answer = await world.client_with_key().get("/api/v1/companions?location=lisbon")
    [line] = logged.lines()
    assert line["request_id"] == answer.headers["x-request-id"]
    assert (line["method"], line["path"], line["status"]) == ("GET", "/api/v1/companions", 200)
    assert line["bytes"] == len(answer.content)
    assert (line["user_id"], line["peer"]) == (world.subscriber.id, world.client_address)
    assert line["key_id"] is not None


async def test_pages_and_unknown_paths_have_access_lines(
    world: HttpDeployment, logged: LoggedDeployment
) -> None:
    """Pages, unknown paths and refused calls have lines with the id of the response."""
    customer = await world.signed_in_client(world.customer.id)
    answers = [
        await customer.get("/account"),
        await customer.get("/nowhere"),
        await world.client().get("/api/v1/companions"),
        await customer.delete("/account"),
    ]
    lines = logged.lines()
    assert [line["status"] for line in lines] == [answer.status_code for answer in answers]
    ids = [line["request_id"] for line in lines]
    assert ids == [answer.headers["x-request-id"] for answer in answers]
    assert lines[0]["user_id"] == world.customer.id


async def test_a_disabled_access_log_costs_nothing(
    world: HttpDeployment, caplog: pytest.LogCaptureFixture
) -> None:
    """Above the level INFO no access lines are written."""
    caplog.set_level(logging.WARNING, ACCESS_LOGGER_NAME)
    logged = LoggedDeployment(world)
    await world.client().get("/healthz")
    assert logged.lines() == []


def test_paths_with_secrets_are_shown_without_them() -> None:
    """Every route whose path has a secret is logged without it."""
    endpoints = [row.path for family in ENDPOINTS_BY_TAG.values() for row in family]
    pages = page_methods(page_handlers(sandbox=True))
    every = {*endpoints, *pages}
    secret_paths = [path for path in every if "{token" in path or "{secret" in path]
    assert len(secret_paths) == 4
    for path in secret_paths:
        assert redact_path(path).endswith("/...")


def test_a_path_is_shown_in_one_short_line() -> None:
    """Control characters of a path are escaped, and a long path is cut."""
    assert redact_path("/a\nb") == "/a\\nb"
    assert len(redact_path("/" + "a" * 10_000)) == 500


# Request ids ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({"x-request-id": "edge-42.a:b_c"}, "edge-42.a:b_c"),
        ({"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}, TRACE),
        ({"x-request-id": "a", "traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}, "a"),
    ],
)
async def test_a_trusted_proxys_request_id_is_taken(
    world: HttpDeployment, headers: dict[str, str], found: str
) -> None:
    """The `X-Request-Id`, else the trace id, of a trusted proxy is the id of the response."""
    world.restart(address=PROXY, proxies=(ip_network("10.0.0.0/8"),))
    for path in ("/healthz", "/api/v1/companions", "/account/sign-in", "/nowhere"):
        answer = await world.client(**headers).get(path)
        assert answer.headers.get_list("x-request-id") == [found]


@pytest.mark.parametrize(
    ("address", "headers"),
    [
        ("203.0.113.9", {"x-request-id": "edge-42"}),
        (PROXY, {"x-request-id": "a b"}),
        (PROXY, {"x-request-id": "x" * 129}),
        (PROXY, {"x-request-id": ""}),
        (PROXY, {"traceparent": "00-xyz-b7ad6b7169203331-01"}),
    ],
)
async def test_other_request_ids_are_ignored(
    world: HttpDeployment, address: str, headers: dict[str, str]
) -> None:
    """Ids of strangers and malformed ids are replaced by a new one."""
    world.restart(address=address, proxies=(ip_network("10.0.0.0/8"),))
    answer = await world.client(**headers).get("/healthz")
    assert answer.headers["x-request-id"] not in headers.values()


# Security events --------------------------------------------------------------------------


@pytest.fixture
def security(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "staffbooking.security")
    return caplog


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.message for one in caplog.records if one.name == "staffbooking.security"]


async def sign_in(world: HttpDeployment, page: bool, password: str) -> httpx.Response:
    fields = {"email": world.customer.email, "password": password}
    client = world.client(origin="http://127.0.0.1:8000")
    if page:
        return await client.post("/account/sign-in", data=fields)
    return await client.post("/auth/login", json=fields)


@pytest.mark.parametrize("page", [False, True], ids=["json", "page"])
async def test_refused_sign_ins_are_security_events(
    world: HttpDeployment, security: pytest.LogCaptureFixture, page: bool
) -> None:
    """Wrong passwords and locked-out sign-ins have events, without password and e-mail."""
    for _ in range(11):
        await sign_in(world, page, "wrong password")
    assert events(security) == ["sign_in_refused"] * 10 + ["sign_in_locked_out"]
    for record in security.records:
        fields = str(vars(record))
        assert world.customer.email not in fields
        assert "wrong password" not in fields


async def test_a_right_sign_in_is_no_event(
    world: HttpDeployment, security: pytest.LogCaptureFixture
) -> None:
    """A successful sign-in is no refusal."""
    json_body(await sign_in(world, False, TEST_PASSWORD))
    assert events(security) == []


async def test_refused_credentials_and_rights_are_security_events(
    world: HttpDeployment, security: pytest.LogCaptureFixture
) -> None:
    """401 and 403 have events with the code, the address and the user."""
    error_body(
        await world.client_with_key("ps_nonsense").get("/api/v1/companions"), 401, "invalid_api_key"
    )
    customer = await world.signed_in_client(world.customer.id)
    customer.headers["x-csrf-token"] = "wrong"
    error_body(await customer.post("/auth/logout"), 403, "csrf_failed")
    staff = await world.signed_in_client(world.companion.id)
    error_body(await staff.post("/bookings", json={}), 403, "customers_only")
    found = [vars(one) for one in security.records if one.name == "staffbooking.security"]
    assert [(one["msg"], one["code"]) for one in found] == [
        ("credentials_refused", "invalid_api_key"),
        ("right_refused", "csrf_failed"),
        ("right_refused", "customers_only"),
    ]
    assert [one["user_id"] for one in found] == [None, world.customer.id, world.companion.id]
    assert {one["address"] for one in found} == {world.client_address}


async def test_an_operators_act_is_a_security_event(
    world: HttpDeployment, security: pytest.LogCaptureFixture
) -> None:
    """A change by an admin has an event with its act and subject, without the reason."""
    admin = await world.signed_in_client(world.admin.id)
    path = f"/api/admin/people/{world.stranger.id}"
    json_body(await admin.post(f"{path}/disable", json={"reason": "Asked by phone"}))
    assert events(security) == ["operator_act"]
    [fields] = [vars(record) for record in security.records]
    assert (fields["act"], fields["subject"], fields["subject_id"]) == (
        "disable",
        "person",
        world.stranger.id,
    )
    assert "phone" not in str(fields)


async def test_changes_of_keys_and_passwords_are_security_events(
    world: HttpDeployment, security: pytest.LogCaptureFixture
) -> None:
    """A made and a revoked API key and a changed password have events, without the secrets."""
    owner = await world.signed_in_client(world.subscriber.id)
    made = json_body(
        await owner.post("/api/keys", json={"name": "one", "permissions": ["read"]}), 201
    )
    json_body(await owner.delete(f"/api/keys/{made['api_key']['id']}"))
    customer = await world.signed_in_client(world.customer.id)
    changed = {"current_password": TEST_PASSWORD, "new_password": "another long password"}
    json_body(await customer.post("/auth/password", json=changed))
    assert events(security) == ["api_key_created", "api_key_revoked", "password_changed"]
    fields = "".join(str(vars(record)) for record in security.records)
    assert made["key"] not in fields
    assert "another long password" not in fields


async def test_work_keeps_the_id_of_the_request(world: HttpDeployment) -> None:
    """A mail that a request causes is sent under the request's id, by whichever process."""
    body = world.request_body()
    answer = await world.client_with_key().post("/api/v1/bookings", json=body)
    assert answer.status_code == 201
    sent: list[str | None] = []

    class Recorder(LogNotifier):
        async def send_email(self, email: Email) -> None:
            sent.append(CURRENT_REQUEST_ID.get())

    await notifications.send_notifications(evolve(world.ports, notifier=Recorder()))
    assert sent == [answer.headers["x-request-id"]]
    assert CURRENT_REQUEST_ID.get() is None
