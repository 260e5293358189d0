"""Refused uploads: callers, order of checks, error responses; a refused upload stores nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
from attrs import evolve
from hypothesis import given, settings, strategies as st

from staffbooking_adapters.testing.builders import HOUR, POLICY
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.errors import InvalidInput, StoreUnavailable
from staffbooking_http.api import upload_limits, uploads
from staffbooking_http.api.endpoint import Call
from staffbooking_http.api.errors import HttpError
from tests.http.api.test_errors import JSON
from tests.http.companions.test_images import PATH, form, kept, upload
from tests.http.deployment import HttpDeployment, error_body, error_fields, json_body
from tests.support.pictures import make_image_bytes, make_jpeg_with_scans, make_png_header_of_size

pytestmark = pytest.mark.anyio

TINY = evolve(POLICY, max_image_bytes=2_000)
MULTIPART = {"content-type": "multipart/form-data; boundary=line"}
HEAD = b'--line\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n'
END = b"\r\n--line--\r\n"


class Live(httpx.AsyncBaseTransport):
    """A transport to the world's current application, also after a restart."""

    def __init__(self, world: HttpDeployment) -> None:
        self.world = world

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self.world.client()._transport.handle_async_request(request)


@pytest.fixture
async def staff(world: HttpDeployment) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the companion. After the test it is checked that nothing is stored."""
    client = await world.signed_in_client(world.companion.id)
    client._transport = Live(world)
    yield client
    assert not kept(world)
    world.raise_limits()
    assert json_body(await client.get(PATH)) == {"images": []}


def body(*parts: bytes) -> dict[str, Any]:
    return {"content": b"".join(parts), "headers": MULTIPART}


async def in_pieces(content: bytes, size: int = 1000) -> AsyncIterator[bytes]:
    """The body in chunks, as from a client that sends no Content-Length."""
    for place in range(0, len(content), size):
        yield content[place : place + size]


def are_free(world: HttpDeployment) -> bool:
    """Whether no upload slot is taken."""
    taken = world.app.site.upload_limiters[PATH]
    return not taken._bodies and taken._work_slots._value == upload_limits.MAX_CONCURRENT_UPLOADS


# Access ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path"), [("POST", PATH), ("GET", PATH), ("DELETE", f"{PATH}/a.jpg")]
)
async def test_images_are_for_staff_with_a_session(
    world: HttpDeployment, method: str, path: str
) -> None:
    """Image endpoints are 401 without credentials and for keys, and 403 for customers and
    admins."""
    error_body(await world.client().request(method, path), 401, "unauthenticated")
    error_body(await world.client_with_key().request(method, path), 401, "session_required")
    for user in (world.customer, world.admin):
        client = await world.signed_in_client(user.id)
        error_body(await client.request(method, path), 403, "staff_only")


async def test_uploads_need_the_csrf_token(world: HttpDeployment, staff: httpx.AsyncClient) -> None:
    """An upload or deletion without the CSRF token is 403."""
    token = staff.headers.pop("x-csrf-token")
    error_body(await staff.post(PATH, **form(make_image_bytes())), 403, "csrf_failed")
    error_body(await staff.delete(f"{PATH}/a.jpg"), 403, "csrf_failed")
    staff.headers["x-csrf-token"] = token


async def test_uploads_count_for_the_general_window(
    world: HttpDeployment, staff: httpx.AsyncClient
) -> None:
    """Refused uploads count too, and an exhausted window is reported before the body is read."""
    world.raise_limits(general=RateLimit("general", 2, HOUR))
    for left in (1, 0):
        answer = await staff.post(PATH, **form(b"no image"))
        error_body(answer, 422, "invalid_field")
        assert answer.headers["x-ratelimit-remaining"] == str(left)
    huge = b"x" * (POLICY.max_image_bytes * 2)
    error_body(await staff.post(PATH, content=huge), 429, "rate_limited")


# Order of the checks --------------------------------------------------------------------


async def test_the_order_of_the_checks(world: HttpDeployment) -> None:
    """The checks of an upload run in the order 401, 403, 413, 415, 400 of the form, 400 of a
    missing file, 422, `too_many_images`."""
    world.restart(policy=evolve(POLICY, max_images=1))
    huge: Any = {"content": b"x" * (POLICY.max_image_bytes + uploads.MAX_FORM_OVERHEAD_BYTES + 1)}
    customer = await world.signed_in_client(world.customer.id)
    staff = await world.signed_in_client(world.companion.id)
    await upload(staff)
    error_body(await world.client().post(PATH, **huge), 401, "unauthenticated")
    error_body(await customer.post(PATH, **huge), 403, "staff_only")
    error_body(await staff.post(PATH, **huge), 413, "body_too_large")
    error_body(await staff.post(PATH, content=b"--x", headers=JSON), 415, "unsupported_media_type")
    error_body(await staff.post(PATH, **body(b"--x")), 400, "malformed_form")
    error_body(await staff.post(PATH, **body(b"--line--\r\n")), 400, "missing_field")
    error_body(await staff.post(PATH, **form(b"no image")), 422, "invalid_field")
    error_body(await staff.post(PATH, **form(make_image_bytes())), 400, "too_many_images")
    assert len(kept(world)) == 1


# Forms and files ------------------------------------------------------------------------


@pytest.mark.parametrize("excess", [0, 1, uploads.MAX_FORM_OVERHEAD_BYTES])
@pytest.mark.parametrize("declared", [True, False])
async def test_a_file_is_bounded_to_the_byte(
    world: HttpDeployment, staff: httpx.AsyncClient, excess: int, declared: bool
) -> None:
    """A larger file is 413, also when the client sends no Content-Length."""
    world.restart(policy=TINY)
    whole = HEAD + bytes(TINY.max_image_bytes + excess) + END
    content: Any = whole if declared else in_pieces(whole)
    answer = await staff.post(PATH, content=content, headers=MULTIPART)
    if excess:
        error_body(answer, 413, "body_too_large")
        assert answer.headers["connection"] == "close"
    else:
        error_body(answer, 422, "invalid_field")


async def test_text_fields_have_a_bound_of_their_own(staff: httpx.AsyncClient) -> None:
    """Text fields have a bound separate from that of the file."""
    most = uploads.MAX_FORM_OVERHEAD_BYTES
    texts = {"x": "x" * (most // 2), "y": "y" * (most // 2)}
    error_body(await staff.post(PATH, data=texts, **form(b"none")), 422, "invalid_field")
    answer = await staff.post(PATH, data={**texts, "z": "z"}, **form(b"none"))
    error_body(answer, 413, "body_too_large")
    assert answer.json()["error"] == f"The form without its file has at most {most} bytes here"


async def test_data_around_a_file_is_bounded(
    world: HttpDeployment, staff: httpx.AsyncClient
) -> None:
    """Unknown fields, and data before and after the form, are bounded."""
    world.restart(policy=TINY)
    whole, much = (
        HEAD + make_image_bytes() + END,
        b"x" * uploads.MAX_FORM_OVERHEAD_BYTES + b"x" * 2_000,
    )
    other = b'--line\r\nContent-Disposition: form-data; name="x"\r\n\r\n' + much + b"\r\n"
    for content in (other + whole, whole + much, much + b"\r\n" + whole):
        error_body(await staff.post(PATH, **body(content)), 413, "body_too_large")
        answer = await staff.post(PATH, content=in_pieces(content), headers=MULTIPART)
        error_body(answer, 413, "body_too_large")


@pytest.mark.parametrize(
    "media",
    [
        None,
        "",
        "image/png",
        "application/json",
        "application/x-www-form-urlencoded",
        "multipart/mixed; boundary=line",
        "multipart/form-data-x; boundary=line",
        "x; multipart/form-data; boundary=line",
    ],
)
async def test_another_content_type_is_415(staff: httpx.AsyncClient, media: str | None) -> None:
    """A content type other than multipart/form-data is 415."""
    headers = {} if media is None else {"content-type": media}
    answer = await staff.post(PATH, content=HEAD + make_image_bytes() + END, headers=headers)
    error_body(answer, 415, "unsupported_media_type")


async def test_two_content_types_are_415(staff: httpx.AsyncClient) -> None:
    """Two Content-Type headers are 415."""
    headers = [*MULTIPART.items()] * 2
    answer = await staff.post(PATH, content=HEAD + make_image_bytes() + END, headers=headers)
    error_body(answer, 415, "unsupported_media_type")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no form",
        b"--line",
        b"--other\r\n",
        HEAD,
        HEAD + make_image_bytes(),
        HEAD + make_image_bytes() + b"\r\n--line",
        HEAD + make_image_bytes() + b"\r\n--line-x",
        HEAD.replace(b"\r\n", b"\n") + make_image_bytes() + END,
        b"--line\r\nno header\r\n\r\n" + END,
        b"--line\r\n\r\n" + make_image_bytes() + END,
        b'--line\r\nContent-Disposition: attachment; name="file"\r\n\r\n' + END,
        b'--line\r\nContent-Disposition: form-data; name="\xff"\r\n\r\n' + END,
        b'--line\r\nContent-Disposition: form-data; name="file"\r\n' + b"X: y\r\n" * 99 + END,
        b'--line\r\nContent-Disposition: form-data; name="' + b"x" * 9_000 + b'"\r\n\r\n' + END,
        b'--line\r\nContent-Disposition: form-data; name="x"\r\n\r\n\r\n' * 99 + b"--line--",
    ],
    ids=range(16),
)
async def test_a_broken_form_is_400(staff: httpx.AsyncClient, content: bytes) -> None:
    """A form that is truncated, has invalid or too many headers, or too many parts is 400
    `malformed_form`."""
    error_body(await staff.post(PATH, **body(content)), 400, "malformed_form")


@pytest.mark.parametrize("boundary", ["", "; boundary=", '; boundary=""', "; boundary=l\xefne"])
async def test_a_form_without_a_boundary_is_400(staff: httpx.AsyncClient, boundary: str) -> None:
    """A missing or invalid boundary is 400."""
    headers = [(b"content-type", f"multipart/form-data{boundary}".encode("latin-1"))]
    answer = await staff.post(PATH, content=HEAD + make_image_bytes() + END, headers=headers)
    error_body(answer, 400, "malformed_form")


@pytest.mark.parametrize(("length", "status"), [(70, 422), (71, 400)])
async def test_a_boundary_has_70_characters(
    staff: httpx.AsyncClient, length: int, status: int
) -> None:
    """A boundary of 70 characters is accepted, and one of 71 is 400."""
    boundary = "x" * length
    content = (HEAD + b"no image" + END).replace(b"line", boundary.encode())
    headers = {"content-type": f"multipart/form-data; boundary={boundary}"}
    assert (await staff.post(PATH, content=content, headers=headers)).status_code == status


async def test_a_form_without_the_file_is_400(staff: httpx.AsyncClient) -> None:
    """A form without the field `file`, or with no file chosen, is 400."""
    image = ("a.png", make_image_bytes(), "image/png")
    for parts in ({"data": {"x": "y"}, "files": {"image": image}}, {"files": {"File": image}}):
        answer = await staff.post(PATH, **parts)
        error_body(answer, 400, "missing_field")
        assert error_fields(answer) == {"file"}
    unchosen = HEAD.replace(b"a.png", b"") + END
    error_body(await staff.post(PATH, **body(unchosen)), 400, "missing_field")


async def test_two_files_are_422(staff: httpx.AsyncClient) -> None:
    """Two files in one form are 422."""
    image = ("file", ("a.png", make_image_bytes(), "image/png"))
    answer = await staff.post(PATH, files=[image, image])
    assert "more than once" in error_body(answer, 422, "invalid_field")["errors"][0]["message"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"GIF89a" + bytes(20),
        b'<svg xmlns="http://www.w3.org/2000/svg"/>',
        b"%PDF-1.7",
        b"<html>",
        make_image_bytes()[:-40],
        make_png_header_of_size(30_000, 30_000, bytes(30_001)),
        make_jpeg_with_scans(99),
        b"x" * 100_000,
    ],
    ids=["none", "gif", "svg", "pdf", "html", "cut", "bomb", "scans", "long"],
)
async def test_an_invalid_image_is_422(staff: httpx.AsyncClient, content: bytes) -> None:
    """Content that is no supported image is 422, whatever the file name and type are."""
    answer = await staff.post(PATH, **form(content, "photo.jpg", "image/jpeg"))
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {"file"}


# Timeouts and failures ------------------------------------------------------------------


async def test_a_form_that_never_ends_times_out(
    world: HttpDeployment, staff: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A form that is not received within the timeout is 400 `body_timeout`, and its slot is
    freed."""
    monkeypatch.setattr(uploads, "UPLOAD_TIMEOUT_SECONDS", 0.05)

    async def stuck() -> AsyncIterator[bytes]:
        yield HEAD
        await anyio.sleep_forever()

    answer = await staff.post(PATH, content=stuck(), headers=MULTIPART)
    error_body(answer, 400, "body_timeout")
    assert are_free(world)


@pytest.mark.parametrize("part", ["files", "store"])
async def test_unavailable_storage_is_503(
    world: HttpDeployment, staff: httpx.AsyncClient, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upload is 503 if the files or the store are unavailable, and a file written before the
    store failed stays."""

    async def gone(*_: object) -> None:
        raise StoreUnavailable("gone")

    name = {"files": "put", "store": "run_transaction"}[part]
    with monkeypatch.context() as broken:
        broken.setattr(type(getattr(world.ports, part)), name, gone)
        error_body(await staff.post(PATH, **form(make_image_bytes())), 503, "unavailable")
    assert len(kept(world)) == (part == "store")
    kept(world).clear()


async def test_a_disconnected_upload_frees_its_slot(
    world: HttpDeployment, staff: httpx.AsyncClient
) -> None:
    """An upload whose client disconnects gets no response, and its slot is freed."""
    messages = iter(
        [
            {"type": "http.request", "body": HEAD + make_image_bytes(), "more_body": True},
            {"type": "http.disconnect"},
        ]
    )
    sent: list[Any] = []

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [*staff.headers.raw, (b"content-type", MULTIPART["content-type"].encode())]
    scope = {
        "type": "http",
        "method": "POST",
        "path": PATH,
        "query_string": b"",
        "headers": [(name.lower(), value) for name, value in headers],
        "client": ("203.0.113.9", 1),
    }
    await world.app(scope, receive, send)
    assert sent == []
    assert are_free(world)


# Random forms ---------------------------------------------------------------------------

TEXT = b'--line\r\nContent-Disposition: form-data; name="title"\r\n\r\nThe ball\r\n'
PIECES = [
    HEAD,
    END,
    TEXT,
    HEAD + b"short" + END,
    b"--line\r\n",
    b"\r\n--line",
    b"\r\n--line--",
    b"--line--\r\n",
    b"\r\n",
    b"\n",
    b"--",
    b'Content-Disposition: form-data; name="file"\r\n',
    b'Content-Disposition: form-data; name="file"; filename=""\r\n',
    b"Content-Disposition: form-data; name=file; filename*=utf-8''%ff\r\n",
    b"content-type: image/png; charset=nonsense\r\n",
    b"content-length: -1\r\n",
    b"Content-Transfer-Encoding: base64\r\n",
    b" continued\r\n",
    b'"\\',
    b"\x00",
]


@settings(max_examples=300)
@given(
    st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=20)), max_size=14),
    st.integers(1, 40),
)
async def test_a_random_form_is_read_or_refused(parts: list[bytes], size: int) -> None:
    """Any form in chunks of any size yields an upload, InvalidInput or HttpError."""
    content = b"".join(parts)
    pieces = [content[place : place + size] for place in range(0, len(content), size)]
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    coming = iter([*messages, {"type": "http.request"}])

    async def receive() -> Any:
        return next(coming)

    call = Call.__new__(Call)
    call.scope = {"headers": [(b"content-type", MULTIPART["content-type"].encode())]}
    call.receive = receive
    with suppress(InvalidInput, HttpError):
        assert isinstance(await uploads.read_upload(call, 1_000), uploads.Upload)
