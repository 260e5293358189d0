"""Regression tests of faults found by fuzzing: a 500, different responses on two stores, or an
undocumented response."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.fuzz.openapi_document import ApiDocument
from tests.http.deployment import HttpDeployment, error_body, error_fields, json_body

pytestmark = pytest.mark.anyio


async def test_a_keys_expiry_is_bounded(each_world: HttpDeployment) -> None:
    """A key's expiry outside the years 1900 to 2999 is 422, and the last instant of 2999 is stored
    exactly."""
    owner = await each_world.signed_in_client(each_world.subscriber.id)

    # asyncpg reads the last instant of 9999 as infinity, without a zone: then no key can be made.
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


async def test_an_invalid_image_name_is_404(each_world: HttpDeployment) -> None:
    """Deleting or reading an image whose name has a NUL or invalid UTF-8 is 404."""
    staff = await each_world.signed_in_client(each_world.companion.id)
    for name in ("%00", "a%00.jpg", "%ff.png"):
        error_body(await staff.delete(f"/staff/images/{name}"), 404, "not_found")
        error_body(await staff.get(f"/media/{name}"), 404, "not_found")


async def test_a_non_ascii_webhook_url_matches_the_document(each_world: HttpDeployment) -> None:
    """A webhook URL that is not strictly a URI is returned unchanged, in a documented response."""
    program = each_world.client_with_key()
    document = ApiDocument(json_body(await program.get("/openapi.json")))
    for url in ("https://b\u00fccher.example/in", "https://example.com/%zz?a[]={1}"):
        for operation in document.operations:
            if operation.path == "/api/webhooks":
                body = {"url": url} if operation.method == "POST" else None
                answer = await program.request(operation.method, operation.path, json=body)
                document.check_response(operation, answer)
                assert url in answer.text


async def test_a_form_only_page_is_405_for_other_methods(world: HttpDeployment) -> None:
    """A page that only takes POST is 405 for GET, HEAD and PUT, with the allowed methods."""
    for method in ("GET", "HEAD", "PUT"):
        answer = await world.client().request(method, "/account/sign-out")
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST, OPTIONS")
