"""Pages on which staff members show a photo and pictures of their work."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import count
from typing import Any

import httpx
import pytest
from attrs import evolve

from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.errors import StoreUnavailable
from tests.http.companions.test_images import kept
from tests.http.deployment import HttpDeployment, json_body
from tests.http.pages.test_account import csrf
from tests.http.pages.test_bookings import PEOPLE
from tests.http.pages.test_profile import FILLED, ME, WORK, member, problem, send, stored
from tests.support.builders import HOUR, POLICY
from tests.support.pictures import make_image_bytes
from tests.support.portfolio import add_portfolio_item, add_uploaded_image

pytestmark = pytest.mark.anyio

PHOTO, NO_PHOTO = f"{ME}/photo", f"{ME}/photo/removal"
KEYS = count()


async def show(
    client: httpx.AsyncClient, path: str, content: bytes, media: str = "image/png", **given: str
) -> httpx.Response:
    """Send a form that brings a picture, which was not sent before."""
    told = {"csrf": csrf(await client.get(ME)), "key": f"key {next(KEYS)}", **given}
    return await client.post(path, data=told, files={"file": ("a.png", content, media)})


async def works(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json_body(await client.get("/staff/portfolio"))["items"]
    return found


def wane(world: HttpDeployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more unit of work is done; then the store is out of reach for all others."""
    store = type(world.store)
    write, done = store.run_transaction, list[Any]()

    async def once(self: Any, work: Any) -> Any:
        if done:
            raise StoreUnavailable("gone")
        done.append(work)
        return await write(self, work)

    monkeypatch.setattr(store, "run_transaction", once)


def meet(world: HttpDeployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two calls at once the second units of work begin together."""
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
    """On the page, and to customers."""
    client = await member(each_world)
    sent = await show(client, PHOTO, make_image_bytes())
    assert (sent.status_code, sent.headers["location"]) == (303, f"{ME}?photo")
    page = (await client.get(sent.headers["location"])).text
    path = (await stored(client))["profile_photo"]
    assert ("Your photo is saved." in page, f'src="/{path}"' in page) == (True, True)
    assert (await each_world.client().get(f"/{path}")).status_code == 200


async def test_a_photo_that_was_replaced_is_removed(each_world: HttpDeployment) -> None:
    """Unless a piece of work shows it too."""
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


async def test_a_photo_is_taken_away(world: HttpDeployment) -> None:
    """By a button that is there as long as a photo is."""
    client = await member(world)
    await show(client, PHOTO, make_image_bytes())
    assert NO_PHOTO in (await client.get(ME)).text
    sent = await send(client, NO_PHOTO)
    assert (sent.status_code, sent.headers["location"]) == (303, f"{ME}?removed")
    page = (await client.get(sent.headers["location"])).text
    assert ("Your photo is removed." in page, NO_PHOTO in page) == (True, False)
    assert ((await stored(client))["profile_photo"], kept(world)) == ("", {})


async def test_of_photos_at_once_one_stays(
    each_world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that is shown; neither the one before it is left, nor the one that lost."""
    client = await member(each_world)
    await show(client, PHOTO, make_image_bytes())
    token = {"csrf": csrf(await client.get(ME))}
    files = {"file": ("a.png", make_image_bytes())}
    meet(each_world, monkeypatch)
    sent = [client.post(PHOTO, data=token, files=files) for _ in range(2)]
    assert {answer.status_code for answer in await asyncio.gather(*sent)} == {303}
    assert await uploads(client) == [(await stored(client))["profile_photo"]]
    assert len(kept(each_world)) == 1


@pytest.mark.parametrize(
    ("before", "path"), [(PHOTO, NO_PHOTO), (WORK, WORK)], ids=["photo", "work"]
)
async def test_what_was_done_is_told_as_done(
    each_world: HttpDeployment, monkeypatch: pytest.MonkeyPatch, before: str, path: str
) -> None:
    """Also where the store is out of reach right after it; the picture has gone with it."""
    client = await member(each_world)
    await show(client, before, make_image_bytes(), title="Ball")
    shown = "".join(f"/{item['id']}" for item in await works(client))
    token = csrf(await client.get(ME))
    with monkeypatch.context() as broken:
        wane(each_world, broken)
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
            "The file is of type image/png, and was sent as another.",
        ),
        (b"GIF89a", "image/gif", 422, "The file is not a JPEG, PNG or WebP image."),
        (b"", "image/png", 422, "The file is empty."),
        (bytes(99_000), "image/png", 413, "A file has at most 2000 bytes here."),
    ],
    ids=["lying", "gif", "empty", "large"],
)
async def test_a_picture_that_is_none_is_refused_in_words(
    world: HttpDeployment, path: str, content: bytes, media: str, status: int, told: str
) -> None:
    """On the page, and nothing is stored."""
    world.restart(policy=evolve(POLICY, max_image_bytes=2_000))
    client = await member(world)
    refused = await show(client, path, content, media, title="Ball")
    assert (refused.status_code, problem(refused)) == (status, told)
    assert (kept(world), await uploads(client), await works(client)) == ({}, [], [])
    assert (await stored(client))["profile_photo"] == ""


@pytest.mark.parametrize("path", [PHOTO, WORK])
async def test_a_form_without_a_picture_is_refused_on_its_page(
    world: HttpDeployment, path: str
) -> None:
    """Where none was chosen, and where it is no form that could bring one."""
    client = await member(world)
    parts = {'name="csrf"': csrf(await client.get(ME)), 'name="file"; filename=""': ""}
    body = "".join(
        f"--line\r\ncontent-disposition: form-data; {name}\r\n\r\n{text}\r\n"
        for name, text in parts.items()
    )
    headers = {"content-type": "multipart/form-data; boundary=line"}
    unchosen = await client.post(path, content=f"{body}--line--\r\n", headers=headers)
    assert (unchosen.status_code, problem(unchosen)) == (400, "The file is required.")
    plain = await send(client, path, title="Ball")
    assert (plain.status_code, "must be multipart/form-data" in problem(plain)) == (415, True)


async def test_a_photo_that_cannot_be_shown_is_not_kept(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the store is out of reach once the picture is there."""
    client = await member(world)
    monkeypatch.setattr("staffbooking_core.usecases.companions.profiles.set_profile_photo", gone)
    refused = await show(client, PHOTO, make_image_bytes())
    assert (refused.status_code, kept(world), await uploads(client)) == (503, {}, [])


async def test_one_image_too_many_is_refused(world: HttpDeployment) -> None:
    """Those count that programs uploaded."""
    world.restart(policy=evolve(POLICY, max_images=1))
    await add_uploaded_image(world.store, world.companion.id, "a.png")
    client = await member(world)
    for path in (PHOTO, WORK):
        refused = await show(client, path, make_image_bytes(), title="Ball")
        assert (refused.status_code, "One may keep at most" in refused.text) == (400, True)
    assert kept(world) == {}


# Who ------------------------------------------------------------------------------------

FORMS = [ME, PHOTO, NO_PHOTO, WORK, f"{WORK}/1"]


@pytest.mark.parametrize("path", FORMS)
async def test_these_pages_are_for_staff(world: HttpDeployment, path: str) -> None:
    """Others are 403, whatever they send."""
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
async def test_a_form_of_somebody_else_is_403(world: HttpDeployment, path: str) -> None:
    """Nothing is done without the token of a page of theirs."""
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
async def test_who_is_signed_out_signs_in_first(world: HttpDeployment, path: str) -> None:
    """And is led back to a page that is there, whatever was sent and how much."""
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


async def test_pictures_count_as_calls_do(world: HttpDeployment) -> None:
    """In the general window of the user, told on the page."""
    limits = evolve(world.ports.policy.limits, general=RateLimit("general", 1, HOUR))
    world.restart(policy=evolve(world.ports.policy, limits=limits))
    client = await member(world)
    assert (await show(client, PHOTO, b"none")).status_code == 422
    for path in (PHOTO, WORK):
        refused = await show(client, path, make_image_bytes(), title="Ball")
        assert (refused.status_code, "Try again in 60" in problem(refused)) == (429, True)


async def test_who_hangs_up_is_no_fault_of_ours(
    world: HttpDeployment, caplog: pytest.LogCaptureFixture
) -> None:
    """An upload that is given up half way is not logged as an error, and leaves nothing."""
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
