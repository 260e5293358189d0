"""The page for staff members: its lines do what they say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.models import CommandInfo

from staffbooking_adapters.memory.store import MemoryStore
from staffbooking_cli.commands import companions, portfolio
from staffbooking_core.domain.companions import Approval
from staffbooking_core.usecases import admin
from tests.http.world import World, ok
from tests.support.builders import POLICY

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs/staff.md").read_text(encoding="utf-8")
CALL = re.compile(
    r"^as_maja (?:-X ([A-Z]+) )?\$BASE(\S+)(?: -d '(.*?)')?$", re.MULTILINE | re.DOTALL
)
SENT = re.compile(r"\$BASE(/auth/\w+).*?-d '(.*?)'", re.DOTALL)


def calls() -> Iterator[tuple[str, str, Any]]:
    """Each call as Maja: method, path, body."""
    for method, path, body in CALL.findall(PAGE):
        yield method or "GET", path, json.loads(body) if body else None


async def test_the_lines_of_the_page_work_one_after_the_other() -> None:
    """From signing up to a portfolio; what is sent comes back, and the profile is complete."""
    world = World(MemoryStore(POLICY))
    client = world.client()
    for path, body in SENT.findall(PAGE):
        answer = ok(await client.post(path, json=json.loads(body)), 201 if "reg" in path else 200)
    client.headers["x-csrf-token"] = answer["csrf_token"]
    made = list(calls())
    assert [(method, path) for method, path, _ in made] == [
        ("PUT", "/staff/profile"),
        ("GET", "/staff/profile"),
        ("PUT", "/staff/availability"),
        ("GET", "/staff/availability"),
        ("POST", "/staff/portfolio"),
        ("GET", "/staff/portfolio"),
        ("DELETE", "/staff/portfolio/1"),
    ]
    for method, path, body in made:
        answer = ok(await client.request(method, path, json=body), 201 if method == "POST" else 200)
        record = next((one for one in answer.values() if isinstance(one, dict)), {})
        assert {name: record[name] for name in body or {}} == (body or {})
    approved = await admin.approve(world.ports, 1, Approval.APPROVED)
    assert approved.is_listed


def test_the_commands_of_the_page_are_there() -> None:
    """Each decision of an operator is a command."""
    for group, commands in (("companions", companions.app), ("portfolio", portfolio.app)):
        named = set(re.findall(rf"^staffbooking {group} (\w+)", PAGE, re.MULTILINE))
        assert named
        assert named <= set(map(name_of, commands.registered_commands))


def name_of(command: CommandInfo) -> str | None:
    return command.name or getattr(command.callback, "__name__", None)
