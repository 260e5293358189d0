"""Tests of image uploads on the profile and portfolio pages of staff members."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import count
from typing import Any

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import HOUR, POLICY
from staffbooking_adapters.testing.builders_portfolio import add_portfolio_item, add_uploaded_image
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.errors import StoreUnavailable
from tests.http.companions.test_images import kept
from tests.http.deployment import HttpDeployment, json_body
from tests.http.pages.test_account import csrf
from tests.http.pages.test_bookings import PEOPLE
from tests.http.pages.test_profile import FILLED, ME, WORK, member, problem, send, stored
from tests.support.pictures import make_image_bytes

pytestmark = pytest.mark.anyio

PHOTO, NO_PHOTO = f"{ME}/photo", f"{ME}/photo/removal"
KEYS = count()


async def show(
    client: httpx.AsyncClient, path: str, content: bytes, media: str = "image/png", **given: str
) -> httpx.Response:
    """Submit a form with an image under a new idempotency key."""
    told = {"csrf": csrf(await client.get(ME)), "key": f"key {next(KEYS)}", **given}
    return await client.post(path, data=told, files={"file": ("a.png", content, media)})


async def works(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json_body(await client.get("/staff/portfolio"))["items"]
    return found


def fail_later_transactions(world: HttpDeployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every transaction after the next one fail as unavailable."""
    store = type(world.store)
    write, done = store.run_transaction, list[Any]()

    async def once(self: Any, work: Any) -> Any:
        if done:
            raise StoreUnavailable("gone")
        done.append(work)
        return await write(self, work)

    monkeypatch.setattr(store, "run_transaction", once)


def align_second_transactions(world: HttpDeployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the second transactions of two concurrent calls start together."""
    store = type(world.store)
    write, both, begun = store.run_transaction, asyncio.Barrier(2), Counter[Any]()

    async def together(self: Any, work: Any) -> Any:
        begun[task := asyncio.current_task()] += 1
        if begun[task] == 2:
            await both.wait()
        return await write(self, work)

    monkeypatch.setattr(store, "run_transaction", together)


async def gone(*_: object) -> None:
    raise StoreUnavailable("gone")


async def uploads(client: httpx.AsyncClient) -> list[str]:
    return [each["image"] for each in json_body(await client.get("/staff/images"))["images"]]


# Photo ----------------------------------------------------------------------------------


async def test_a_photo_is_uploaded_and_shown(each_world: HttpDeployment) -> None:
    """An uploaded photo is confirmed and shown on the page, and served to anyone."""
    client = await member(each_world)
    sent = await show(client, PHOTO, make_image_bytes())
    assert (sent.status_code, sent.headers["location"]) == (303, f"{ME}?photo")
    page = (await client.get(sent.headers["location"])).text
    path = (await stored(client))["profile_photo"]
    assert ("Your photo is saved." in page, f'src="/{path}"' in page) == (True, True)
    assert (await each_world.client().get(f"/{path}")).status_code == 200


async def test_a_replaced_photo_is_deleted(each_world: HttpDeployment) -> None:
    """A replaced photo is deleted unless a portfolio item uses it."""
    client = await member(each_world)
    await show(client, PHOTO, make_image_bytes())
    [first] = await uploads(client)
    await add_portfolio_item(each_world.store, each_world.companion.id, image=first)
    sent = await show(client, PHOTO, make_image_bytes("webp"), "image/webp")
    assert sent.status_code == 303
    [second] = set(await uploads(client)) - {first}
    await show(client, PHOTO, make_image_bytes("jpeg"), "image/jpeg")
    assert (first in await uploads(client), second in await uploads(client)) == (True, False)
    assert len(kept(each_world)) == 2


async def test_a_photo_is_removed(world: HttpDeployment) -> None:
    """A button, shown only while there is a photo, removes the photo and its image."""
    client = await member(world)
    await show(client, PHOTO, make_image_bytes())
    assert NO_PHOTO in (await client.get(ME)).text
    sent = await send(client, NO_PHOTO)
    assert (sent.status_code, sent.headers["location"]) == (303, f"{ME}?removed")
    page = (await client.get(sent.headers["location"])).text
    assert ("Your photo is removed." in page, NO_PHOTO in page) == (True, False)
    assert ((await stored(client))["profile_photo"], kept(world)) == ("", {})


async def test_one_of_two_concurrent_photos_is_kept(
    each_world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two photos uploaded concurrently, only the image of the shown one is kept."""
    client = await member(each_world)
    await show(client, PHOTO, make_image_bytes())
    token = {"csrf": csrf(await client.get(ME))}
    files = {"file": ("a.png", make_image_bytes())}
    align_second_transactions(each_world, monkeypatch)
    sent = [client.post(PHOTO, data=token, files=files) for _ in range(2)]
    assert {answer.status_code for answer in await asyncio.gather(*sent)} == {303}
    assert await uploads(client) == [(await stored(client))["profile_photo"]]
    assert len(kept(each_world)) == 1


@pytest.mark.parametrize(
    ("before", "path"), [(PHOTO, NO_PHOTO), (WORK, WORK)], ids=["photo", "work"]
)
async def test_a_removal_succeeds_before_an_outage(
    each_world: HttpDeployment, monkeypatch: pytest.MonkeyPatch, before: str, path: str
) -> None:
    """A removal succeeds and deletes the image, even if the store is unavailable right after it."""
    client = await member(each_world)
    await show(client, before, make_image_bytes(), title="Ball")
    shown = "".join(f"/{item['id']}" for item in await works(client))
    token = csrf(await client.get(ME))
    with monkeypatch.context() as broken:
        fail_later_transactions(each_world, broken)
        sent = await client.post(f"{path}{shown}", data={"csrf": token})
    assert sent.status_code == 303
    assert (await works(client), await uploads(client)) == ([], [])


@pytest.mark.parametrize("path", [PHOTO, WORK])
@pytest.mark.parametrize(
    ("content", "media", "status", "told"),
    [
        (
            make_image_bytes(),
            "image/gif",
            422,
            ": It is another kind of file than its name says.",
        ),
        (b"GIF89a", "image/gif", 422, ": Choose a JPEG, PNG or WebP picture."),
        (b"", "image/png", 422, ": It is empty. Choose another file."),
        (bytes(99_000), "image/png", 413, ": It has more than 2000 bytes."),
    ],
    ids=["lying", "gif", "empty", "large"],
)
async def test_an_invalid_image_is_refused(
    world: HttpDeployment, path: str, content: bytes, media: str, status: int, told: str
) -> None:
    """An invalid image is an error on the page, and nothing is stored."""
    world.restart(policy=evolve(POLICY, max_image_bytes=2_000))
    client = await member(world)
    refused = await show(client, path, content, media, title="Ball")
    assert (refused.status_code, problem(refused)[-len(told) :]) == (status, told)
    assert (kept(world), await uploads(client), await works(client)) == ({}, [], [])
    assert (await stored(client))["profile_photo"] == ""


@pytest.mark.parametrize("path", [PHOTO, WORK])
async def test_a_form_without_a_picture_is_refused_on_its_page(
    world: HttpDeployment, path: str
) -> None:
    """A form without a chosen file is 400, and one that is not multipart is 415."""
    client = await member(world)
    parts = {'name="csrf"': csrf(await client.get(ME)), 'name="file"; filename=""': ""}
    body = "".join(
        f"--line\r\ncontent-disposition: form-data; {name}\r\n\r\n{text}\r\n"
        for name, text in parts.items()
    )
    headers = {"content-type": "multipart/form-data; boundary=line"}
    unchosen = await client.post(path, content=f"{body}--line--\r\n", headers=headers)
    assert (unchosen.status_code, problem(unchosen)[-15:]) == (400, " Fill this in.".rjust(15, ":"))
    plain = await send(client, path, title="Ball")
    assert (plain.status_code, "must be multipart/form-data" in problem(plain)) == (415, True)


async def test_a_photo_that_cannot_be_set_is_not_kept(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image is not kept if the store is unavailable when the photo is set."""
    client = await member(world)
    monkeypatch.setattr("staffbooking_core.usecases.companions.profiles.set_profile_photo", gone)
    refused = await show(client, PHOTO, make_image_bytes())
    assert (refused.status_code, kept(world), await uploads(client)) == (503, {}, [])


async def test_one_image_too_many_is_refused(world: HttpDeployment) -> None:
    """Images over the limit are refused, and images uploaded by the API count."""
    world.restart(policy=evolve(POLICY, max_images=1))
    await add_uploaded_image(world.store, world.companion.id, "a.png")
    client = await member(world)
    for path in (PHOTO, WORK):
        refused = await show(client, path, make_image_bytes(), title="Ball")
        assert (refused.status_code, "One may keep at most" in refused.text) == (400, True)
    assert kept(world) == {}


# Access ---------------------------------------------------------------------------------

FORMS = [ME, PHOTO, NO_PHOTO, WORK, f"{WORK}/1", f"{WORK}/1/place"]


@pytest.mark.parametrize("path", FORMS)
async def test_these_pages_are_for_staff(world: HttpDeployment, path: str) -> None:
    """Customers and admins are 403 on these pages and their forms."""
    for user in (world.customer, world.admin):
        client = await world.signed_in_client(user.id)
        token = client.headers.pop("x-csrf-token")
        if path in (ME, WORK):
            assert (await client.get(path, headers=PEOPLE)).status_code == 403
        for sent in (
            await client.post(path, data={"csrf": token}),
            await client.post(
                path, data={"csrf": token}, files={"file": ("a", make_image_bytes())}
            ),
        ):
            assert sent.status_code == 403
        assert ME not in (await client.get("/")).text
    assert kept(world) == {}


@pytest.mark.parametrize("path", FORMS)
async def test_a_form_without_the_token_is_403(world: HttpDeployment, path: str) -> None:
    """A form without the session's CSRF token is 403 and changes nothing."""
    item = await add_portfolio_item(world.store, world.companion.id)
    client = await member(world)
    await show(client, PHOTO, make_image_bytes())
    before = await stored(client)
    to = path.replace("/1", f"/{item.id}")
    for token in ("", "x"):
        given = {**FILLED, "csrf": token, "title": "Ball"}
        files = {"file": ("a.png", make_image_bytes())} if path in (PHOTO, WORK) else None
        sent = await client.post(to, data=given, files=files, headers=PEOPLE)
        assert (sent.status_code, "The form has lapsed" in sent.text) == (403, True)
    assert await stored(client) == before
    assert (len(await works(client)), len(kept(world))) == (1, 1)


@pytest.mark.parametrize("path", FORMS)
async def test_signed_out_requests_lead_to_sign_in(world: HttpDeployment, path: str) -> None:
    """Signed-out requests, uploads included, lead to sign-in and back to the page."""
    back = ME if path.startswith(ME) else WORK
    client = world.client()
    answers = [
        await client.post(path),
        await client.post(path, files={"file": ("a.png", make_image_bytes())}),
        await client.post(path, files={"file": ("a.png", bytes(99_000))}),
    ]
    if path == back:
        answers.append(await client.get(path))
    for answer in answers:
        assert answer.status_code == 303
        assert httpx.URL(answer.headers["location"]).params["next"] == back


async def test_uploads_count_against_the_rate_limit(world: HttpDeployment) -> None:
    """Uploads count against the user's general rate limit, with the retry time on the page."""
    limits = evolve(world.ports.policy.limits, general=RateLimit("general", 1, HOUR))
    world.restart(policy=evolve(world.ports.policy, limits=limits))
    client = await member(world)
    assert (await show(client, PHOTO, b"none")).status_code == 422
    for path in (PHOTO, WORK):
        refused = await show(client, path, make_image_bytes(), title="Ball")
        assert (refused.status_code, "Try again in 60" in problem(refused)) == (429, True)


async def test_a_disconnect_is_not_logged_as_an_error(
    world: HttpDeployment, caplog: pytest.LogCaptureFixture
) -> None:
    """An upload whose client disconnects logs no error and stores nothing."""
    client = await member(world)
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def note(message: Any) -> None:
        sent.append(message)

    headers = [*client.headers.raw, (b"content-type", b"multipart/form-data; boundary=line")]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": PHOTO,
        "raw_path": PHOTO.encode(),
        "query_string": b"",
        "headers": [(name.lower(), value) for name, value in headers],
        "client": ("203.0.113.9", 50_000),
        "server": ("test", 80),
    }
    await world.app(scope, receive, note)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    assert kept(world) == {}
