"""Images over HTTP: uploading, listing, deleting, and public access (CONTRACT 3)."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.memory.files import MemoryFiles
from staffbooking_adapters.testing.builders import HOUR, MINUTE, POLICY, add_companion
from staffbooking_core.domain.companions.portfolio import image_kind_of
from staffbooking_core.domain.shared.rate_limits import RateLimit
from tests.http.deployment import HttpDeployment, error_body, json_body
from tests.support.pictures import (
    CORNER_COLOURS,
    METADATA_SECRET,
    are_similar_colours,
    corner_colours,
    make_exif,
    make_image_bytes,
)

pytestmark = pytest.mark.anyio

PATH = "/staff/images"


def form(
    content: bytes, name: str = "me.jpg", media: str = "application/octet-stream"
) -> dict[str, Any]:
    return {"files": {"file": (name, content, media)}}


async def upload(client: httpx.AsyncClient, kind: str = "png", **options: Any) -> str:
    """Upload a valid image; returns its path."""
    answer = await client.post(PATH, **form(make_image_bytes(kind, **options)))
    path: str = json_body(answer, 201)["image"]
    return path


def kept(world: HttpDeployment) -> dict[str, bytes]:
    assert isinstance(world.ports.files, MemoryFiles)
    return world.ports.files.contents


# Uploading ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp"])
async def test_an_image_is_uploaded_and_shown(each_world: HttpDeployment, kind: str) -> None:
    """An uploaded image is public at its path, rotated upright and without its metadata."""
    staff = await each_world.signed_in_client(each_world.companion.id)
    given = make_image_bytes(kind, exif=make_exif(3))
    made = json_body(await staff.post(PATH, **form(given)), 201)
    assert made.keys() == {"success", "image"}
    assert made["success"] is True
    folder, _, name = made["image"].partition("/")
    assert folder == "media"
    assert image_kind_of(name) == kind

    shown = await each_world.client().get(f"/{made['image']}")

    assert shown.status_code == 200
    assert shown.headers["content-type"] == f"image/{kind}"
    assert are_similar_colours(corner_colours(shown.content), CORNER_COLOURS[::-1])
    assert METADATA_SECRET in given
    assert METADATA_SECRET not in shown.content


async def test_an_image_goes_into_the_profile_and_the_portfolio(each_world: HttpDeployment) -> None:
    """Profile and portfolio accept an uploaded path, and the image cannot be deleted while in
    use."""
    staff = await each_world.signed_in_client(each_world.companion.id)
    photo, work = await upload(staff), await upload(staff)
    json_body(await staff.put("/staff/profile", json={"profile_photo": photo}))
    item = {"title": "The spring ball", "image": work}
    json_body(await staff.post("/staff/portfolio", json=item), 201)
    for path in (photo, work):
        name = path.rpartition("/")[2]
        error_body(await staff.delete(f"{PATH}/{name}"), 400, "image_in_use")
        assert (await each_world.client().get(f"/{path}")).status_code == 200
    found = json_body(
        await each_world.client_with_key().get(f"/api/v1/companions/{each_world.companion.id}")
    )
    assert found["companion"]["profile_photo"] == photo


async def test_the_file_name_is_ignored(world: HttpDeployment) -> None:
    """The content decides an image's type, not its file name."""
    staff = await world.signed_in_client(world.companion.id)
    answer = await staff.post(PATH, **form(make_image_bytes("png"), "../../x.exe"))
    assert json_body(answer, 201)["image"].endswith(".png")


@pytest.mark.parametrize(
    "kind, media", [("png", "Image/PNG"), ("jpeg", "image/jpg"), ("webp", "image/webp; q=1")]
)
async def test_a_matching_media_type_is_accepted(
    world: HttpDeployment, kind: str, media: str
) -> None:
    """A matching media type is accepted in any case, as an alias, and with parameters."""
    staff = await world.signed_in_client(world.companion.id)
    assert json_body(await staff.post(PATH, **form(make_image_bytes(kind), "x", media)), 201)


@pytest.mark.parametrize("media", ["image/jpeg", "image/gif", "text/html", "x"])
async def test_a_wrong_media_type_is_refused(world: HttpDeployment, media: str) -> None:
    """An image sent with another media type is 422 and not stored."""
    staff = await world.signed_in_client(world.companion.id)
    answer = await staff.post(PATH, **form(make_image_bytes("png"), "x.png", media))
    told = error_body(answer, 422, "invalid_field")["errors"]
    message = "is of type image/png, and was sent as another"
    assert told == [{"field": "file", "message": message}]
    assert not kept(world)


async def test_a_part_without_a_file_name_is_a_file(world: HttpDeployment) -> None:
    """A part named `file` without a file name is accepted as an image."""
    staff = await world.signed_in_client(world.companion.id)
    body = (
        b'--line\r\ncontent-disposition: form-data; name="file"\r\n\r\n'
        + make_image_bytes("webp")
        + b"\r\n--line--\r\n"
    )
    headers = {"content-type": "multipart/form-data; boundary=line"}
    assert json_body(await staff.post(PATH, content=body, headers=headers), 201)


async def test_other_fields_are_ignored(world: HttpDeployment) -> None:
    """Other fields and files of the form are ignored."""
    staff = await world.signed_in_client(world.companion.id)
    files = [
        ("other", ("a.png", b"no image", "image/png")),
        ("file", ("b.png", make_image_bytes(), "image/png")),
        ("files", ("c.png", b"no image", "image/png")),
    ]
    answer = await staff.post(PATH, data={"title": "x", "csrf": "y"}, files=files)
    assert json_body(answer, 201)
    assert len(kept(world)) == 1


async def test_a_body_in_small_chunks_is_accepted(world: HttpDeployment) -> None:
    """A body in chunks of 7 bytes is accepted."""
    staff = await world.signed_in_client(world.companion.id)
    whole = httpx.Request("POST", "http://x", **form(make_image_bytes("jpeg")))

    body = whole.read()

    async def pieces() -> Any:
        for place in range(0, len(body), 7):
            yield body[place : place + 7]

    headers = {"content-type": whole.headers["content-type"]}
    assert json_body(await staff.post(PATH, content=pieces(), headers=headers), 201)


# Listing and deleting -------------------------------------------------------------------


async def test_images_are_listed(each_world: HttpDeployment) -> None:
    """A user's images are listed newest first, with their sizes and times."""
    staff = await each_world.signed_in_client(each_world.companion.id)
    assert json_body(await staff.get(PATH)) == {"images": []}
    paths = []
    for kind in ("jpeg", "webp"):
        paths.append(await upload(staff, kind))
        each_world.clock.advance(10 * MINUTE)
    found = json_body(await staff.get(PATH))["images"]
    assert [image["image"] for image in found] == paths[::-1]
    for image in found:
        assert image["image"] == f"media/{image['name']}"
        assert image["size"] == len(kept(each_world)[image["name"]])
    assert [image["created_at"] for image in found] == [
        "2027-03-01T12:10:00Z",
        "2027-03-01T12:00:00Z",
    ]


async def test_an_image_is_deleted(each_world: HttpDeployment) -> None:
    """A deleted image is no longer listed or public, and deleting it again is 404."""
    staff = await each_world.signed_in_client(each_world.companion.id)
    path, other = await upload(staff), await upload(staff)
    name = path.rpartition("/")[2]
    assert json_body(await staff.delete(f"{PATH}/{name}")) == {"success": True}
    error_body(await each_world.client().get(f"/{path}"), 404, "not_found")
    error_body(await staff.delete(f"{PATH}/{name}"), 404, "not_found")
    assert [image["image"] for image in json_body(await staff.get(PATH))["images"]] == [other]


async def test_anothers_image_is_404(each_world: HttpDeployment) -> None:
    """Deleting another user's image is the same 404 as for an unknown one, and the image stays."""
    mine = await each_world.signed_in_client(each_world.companion.id)
    other = await each_world.signed_in_client((await add_companion(each_world.store)).id)
    name = (await upload(mine)).rpartition("/")[2]
    theirs, none = await other.delete(f"{PATH}/{name}"), await other.delete(f"{PATH}/none.jpg")
    assert (theirs.status_code, theirs.json()) == (404, none.json())
    assert json_body(await other.get(PATH)) == {"images": []}
    assert name in kept(each_world)


async def test_an_image_over_the_limit_is_refused(each_world: HttpDeployment) -> None:
    """An image over the limit is 400 and not stored, and accepted once another one is deleted."""
    each_world.restart(policy=evolve(POLICY, max_images=2))
    staff = await each_world.signed_in_client(each_world.companion.id)
    paths = [await upload(staff) for _ in range(2)]
    error_body(await staff.post(PATH, **form(make_image_bytes())), 400, "too_many_images")
    assert len(kept(each_world)) == 2
    json_body(await staff.delete(f"{PATH}/{paths[0].rpartition('/')[2]}"))
    await upload(staff)


# Public access --------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("kind", ["jpeg", "png", "webp"])
async def test_an_image_has_its_headers(world: HttpDeployment, kind: str, method: str) -> None:
    """An image is immutable for caches, has sandboxing headers and no rate limit headers."""
    path = await upload(await world.signed_in_client(world.companion.id), kind)
    answer = await world.client().request(method, f"/{path}")
    told = answer.headers
    name = path.rpartition("/")[2]
    assert answer.status_code == 200
    assert told["content-type"] == f"image/{kind}"
    assert told["content-length"] == str(len(kept(world)[name]))
    assert told["etag"] == f'"{name}"'
    assert told.get_list("cache-control") == ["public, max-age=31536000, immutable"]
    assert told.get_list("content-security-policy") == ["default-src 'none'; sandbox"]
    assert told["x-content-type-options"] == "nosniff"
    assert told["content-disposition"] == "inline"
    assert told["referrer-policy"] == "no-referrer"
    assert not [header for header in told if header.startswith("x-ratelimit")]
    assert answer.content == (kept(world)[name] if method == "GET" else b"")


@pytest.mark.parametrize("known", ['"{}"', 'W/"{}"', '"other" , "{}"', "*"])
async def test_a_known_image_is_304(world: HttpDeployment, known: str) -> None:
    """A request with the image's tag is 304 with caching headers and no content headers."""
    path = await upload(await world.signed_in_client(world.companion.id))
    tag = known.format(path.rpartition("/")[2])
    answer = await world.client().get(f"/{path}", headers={"if-none-match": tag})
    assert (answer.status_code, answer.content) == (304, b"")
    assert answer.headers["etag"] == f'"{path.rpartition("/")[2]}"'
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert "content-length" not in answer.headers
    assert "content-type" not in answer.headers


@pytest.mark.parametrize("known", ['"other"', "nonsense", ""])
async def test_another_tag_is_200(world: HttpDeployment, known: str) -> None:
    """A request with another tag, or an invalid one, is 200."""
    path = await upload(await world.signed_in_client(world.companion.id))
    answer = await world.client().get(f"/{path}", headers={"if-none-match": known})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/media/none.jpg",
        "/media/none.gif",
        "/media/none",
        "/media/",
        "/media",
        "/media/a/b.jpg",
        "/media/..%2f..%2fetc%2fpasswd",
        "/media/%2e%2e",
        "/media/a.jpg%00",
        "/media/a.jpg%0d%0aset-cookie:%20x",
        "/media/%c3%a9.jpg",
        "/media/%ff.jpg",
        f"/media/{'a' * 300}.jpg",
    ],
)
async def test_an_unknown_image_is_404(world: HttpDeployment, path: str) -> None:
    """An unknown or malformed image name is 404 and not cacheable, also with `If-None-Match`."""
    for headers in ({}, {"if-none-match": "*"}):
        answer = await world.client().get(path, headers=headers)
        error_body(answer, 404, "not_found")
        assert answer.headers["cache-control"] == "no-store"


async def test_images_are_for_reading(world: HttpDeployment) -> None:
    """Images allow GET, HEAD and OPTIONS only, and do not count for rate limits."""
    answer = await world.client().put("/media/none.jpg", content=b"x")
    error_body(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS"
    world.raise_limits(general=RateLimit("general", 1, HOUR))
    for _ in range(3):
        error_body(await world.client().get("/media/none.jpg"), 404, "not_found")


async def test_strict_transport_is_kept(world: HttpDeployment) -> None:
    """An image has the HSTS header on an https site."""
    path = await upload(await world.signed_in_client(world.companion.id))
    world.restart(policy=evolve(POLICY, base_url="https://book.example.org"))
    answer = await world.client().get(f"/{path}")
    assert answer.headers["strict-transport-security"] == "max-age=31536000"
