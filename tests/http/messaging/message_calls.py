"""Helpers of message tests over HTTP: sending, listing, reading."""

from __future__ import annotations

from typing import Any

import httpx

from tests.http.deployment import HttpDeployment, json_body

JsonRecord = dict[str, Any]


async def sign_in_parties(world: HttpDeployment) -> tuple[httpx.AsyncClient, httpx.AsyncClient]:
    """Browsers of the customer and of the companion."""
    return await world.signed_in_client(world.customer.id), await world.signed_in_client(
        world.companion.id
    )


async def send_message(client: httpx.AsyncClient, to: int, content: str = "Hello") -> JsonRecord:
    """Send a message to a user; returns the message."""
    answer = await client.post(f"/messages/send/{to}", json={"content": content})
    made: JsonRecord = json_body(answer, 201)["message"]
    return made


async def send_to_conversation(
    client: httpx.AsyncClient, number: int, content: str = "Hello"
) -> JsonRecord:
    """Send a message to a conversation; returns the message."""
    answer = await client.post(f"/messages/conversation/{number}", json={"content": content})
    made: JsonRecord = json_body(answer, 201)["message"]
    return made


async def list_conversations(client: httpx.AsyncClient, query: str = "") -> list[JsonRecord]:
    """The conversations of the client's user."""
    found: list[JsonRecord] = json_body(await client.get(f"/messages{query}"))["conversations"]
    return found


async def get_conversation(client: httpx.AsyncClient, number: int, query: str = "") -> JsonRecord:
    """A conversation with its messages."""
    found: JsonRecord = json_body(await client.get(f"/messages/conversation/{number}{query}"))
    return found


async def message_texts(client: httpx.AsyncClient, number: int) -> list[str]:
    """The texts of a conversation's messages, as the client's user reads them."""
    return [message["content"] for message in (await get_conversation(client, number))["messages"]]
