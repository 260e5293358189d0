"""What tests of messages over HTTP do: say something, list, read."""

from __future__ import annotations

from typing import Any

import httpx

from tests.http.deployment import World, ok

Record = dict[str, Any]


async def sides(world: World) -> tuple[httpx.AsyncClient, httpx.AsyncClient]:
    """Browsers of the customer and of the companion."""
    return await world.browser(world.customer.id), await world.browser(world.companion.id)


async def say(client: httpx.AsyncClient, to: int, content: str = "Hello") -> Record:
    """Say something to a user: the message."""
    answer = await client.post(f"/messages/send/{to}", json={"content": content})
    made: Record = ok(answer, 201)["message"]
    return made


async def say_in(client: httpx.AsyncClient, number: int, content: str = "Hello") -> Record:
    """Say something in a conversation: the message."""
    answer = await client.post(f"/messages/conversation/{number}", json={"content": content})
    made: Record = ok(answer, 201)["message"]
    return made


async def listed(client: httpx.AsyncClient, query: str = "") -> list[Record]:
    """Somebody's conversations."""
    found: list[Record] = ok(await client.get(f"/messages{query}"))["conversations"]
    return found


async def history(client: httpx.AsyncClient, number: int, query: str = "") -> Record:
    """A conversation with its messages."""
    found: Record = ok(await client.get(f"/messages/conversation/{number}{query}"))
    return found


async def contents(client: httpx.AsyncClient, number: int) -> list[str]:
    """What somebody reads in a conversation."""
    return [message["content"] for message in (await history(client, number))["messages"]]
