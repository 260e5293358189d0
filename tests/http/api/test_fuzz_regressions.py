"""What fuzzing found: each was a 500, another answer on another store, or against the document."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.fuzz.openapi_document import ApiDocument
from tests.http.deployment import HttpDeployment, error_body, error_fields, json_body

pytestmark = pytest.mark.anyio


async def test_a_key_does_not_last_to_the_end_of_time(each_world: HttpDeployment) -> None:
    """PostgreSQL's driver takes that instant for no end at all, of no zone: no further key could
    be made. The last day that calendars know passes."""
    owner = await each_world.signed_in_client(each_world.subscriber.id)
    given = {"name": "Till", "permissions": ["read"]}
    for instant in ("9999-12-31T23:59:59.999999Z", "3000-01-01T00:00Z", "1899-12-31T23:59:59Z"):
        answer = await owner.post("/api/keys", json={**given, "expires_at": instant})
        error_body(answer, 422, "invalid_field")
        assert error_fields(answer) == {"expires_at"}
    latest = datetime(2999, 12, 31, 23, 59, 59, 999_999, UTC)
    body = {**given, "expires_at": latest.isoformat().replace("+00:00", "Z")}
    made = json_body(await owner.post("/api/keys", json=body), 201)["api_key"]
    assert datetime.fromisoformat(made["expires_at"]) == latest
    json_body(await owner.post("/api/keys", json=given), 201)


async def test_no_image_has_a_name_that_no_store_takes(each_world: HttpDeployment) -> None:
    """To delete it is 404, as to see it is."""
    staff = await each_world.signed_in_client(each_world.companion.id)
    for name in ("%00", "a%00.jpg", "%ff.png"):
        error_body(await staff.delete(f"/staff/images/{name}"), 404, "not_found")
        error_body(await staff.get(f"/media/{name}"), 404, "not_found")


async def test_a_webhooks_url_is_told_as_documented(each_world: HttpDeployment) -> None:
    """As it was given: no URI to the letter, where the host is in letters of its language."""
    program = each_world.client_with_key()
    document = ApiDocument(json_body(await program.get("/openapi.json")))
    for url in ("https://b\u00fccher.example/in", "https://example.com/%zz?a[]={1}"):
        for operation in document.operations:
            if operation.path == "/api/webhooks":
                body = {"url": url} if operation.method == "POST" else None
                answer = await program.request(operation.method, operation.path, json=body)
                document.check_response(operation, answer)
                assert url in answer.text


async def test_a_page_that_takes_forms_alone_is_405_to_be_seen(world: HttpDeployment) -> None:
    """It says what it takes; and a HEAD of it is no more a fault than a GET."""
    for method in ("GET", "HEAD", "PUT"):
        answer = await world.client().request(method, "/account/sign-out")
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST, OPTIONS")
