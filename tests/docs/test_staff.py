"""docs/staff.md: its requests and commands work."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.models import CommandInfo

from staffbooking_adapters.memory.store import MemoryStore
from staffbooking_adapters.testing.builders import POLICY
from staffbooking_cli.commands import companions, portfolio
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.usecases.companions import approvals
from tests.http.deployment import HttpDeployment, json_body
from tests.support.pictures import make_image_bytes

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs/staff.md").read_text(encoding="utf-8")
CALL = re.compile(
    r"^(?:ITEM=\$\()?as_maja (?:-X ([A-Z]+) )?\$BASE(\S+)(?: -d '(.*?)')?(?: \|.*?)?$",
    re.MULTILINE | re.DOTALL,
)
SENT = re.compile(r"\$BASE(/auth/\w+).*?-d '(.*?)'", re.DOTALL)


UPLOAD = re.compile(r"^IMAGE=\$\(curl .* \$BASE(\S+) -F file=@\S+ \|$", re.MULTILINE)
PICKED = re.compile(r"^(?:IMAGE|ITEM)=.*?sed '(.*?)'\)$", re.MULTILINE | re.DOTALL)


def calls() -> Iterator[tuple[str, str, str]]:
    """Method, path and body of each request as Maja."""
    for method, path, body in CALL.findall(PAGE):
        yield method or "GET", path, body


def picked(by: str, answer: httpx.Response) -> str:
    """The value that a sed expression of the page extracts from a response."""
    return subprocess.run(
        ["sed", by], input=answer.text, capture_output=True, text=True, check=True
    ).stdout.strip()


async def test_the_lines_of_the_page_work_one_after_the_other() -> None:
    """The requests of the page succeed in order, return what was sent, and complete a profile that
    can be listed."""
    world = HttpDeployment(MemoryStore(POLICY))
    client = world.client()
    for path, body in SENT.findall(PAGE):
        answer = json_body(
            await client.post(path, json=json.loads(body)), 201 if "reg" in path else 200
        )
    client.headers["x-csrf-token"] = answer["csrf_token"]
    made = list(calls())
    assert [(method, path) for method, path, _ in made] == [
        ("PUT", "/staff/profile"),
        ("GET", "/staff/profile"),
        ("PUT", "/staff/availability"),
        ("GET", "/staff/availability"),
        ("POST", "/staff/portfolio"),
        ("GET", "/staff/portfolio"),
        ("DELETE", "/staff/portfolio/$ITEM"),
    ]
    (upload,), (image_by, item_by) = UPLOAD.findall(PAGE), PICKED.findall(PAGE)
    uploaded = await client.post(upload, files={"file": make_image_bytes()})
    image, item = picked(image_by, uploaded), ""
    for method, path, text in made:
        body = json.loads(text.replace("'$IMAGE'", image)) if text else {}
        response = await client.request(method, path.replace("$ITEM", item), json=body or None)
        answer = json_body(response, 201 if method == "POST" else 200)
        record = next((one for one in answer.values() if isinstance(one, dict)), {})
        assert {name: record[name] for name in body} == body
        item = item or (picked(item_by, response) if method == "POST" else "")
    approved = await approvals.set_approval(world.ports, 1, Approval.APPROVED)
    assert approved.is_listed


def test_the_commands_of_the_page_are_there() -> None:
    """All commands that the page names exist."""
    for group, commands in (("companions", companions.app), ("portfolio", portfolio.app)):
        named = set(re.findall(rf"^staffbooking {group} (\w+)", PAGE, re.MULTILINE))
        assert named
        assert named <= set(map(name_of, commands.registered_commands))


def name_of(command: CommandInfo) -> str | None:
    return command.name or getattr(command.callback, "__name__", None)


@pytest.mark.parametrize("name", ["staff", "images", "notifications", "calendars", "channel"])
def test_the_pages_name_a_session_alike(name: str) -> None:
    """All pages use `jar` for cookies and `$CSRF` for the token."""
    page = (Path(__file__).parents[2] / f"docs/{name}.md").read_text(encoding="utf-8")
    assert set(re.findall(r"X-CSRF-Token: ([^\"]+)\"", page)) == {"$CSRF"}
    assert set(re.findall(r" -[bc] (\S+)", page)) == {"jar"}
