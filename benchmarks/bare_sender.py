"""An upper bound for any sender: raw sockets with a new signed request each time; only the head of
the response is read."""

from __future__ import annotations

import asyncio
import hmac
from time import time
from urllib.parse import urlsplit


async def send_over_raw_sockets(url: str, body: bytes, width: int, count: int) -> float:
    """Send `count` POST requests over `width` connections; returns requests per second."""
    parts = urlsplit(url)
    left = iter(range(count))

    async def send() -> None:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        for number in left:
            signature = hmac.new(b"secret", body, "sha256").hexdigest()
            head = (
                f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nWebhook-Id: {number}\r\n"
                f"X-Webhook-Signature: {signature}\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            writer.write(head.encode() + body)
            await reader.readuntil(b"\r\n\r\n")
        writer.close()

    began = time()
    await asyncio.gather(*(send() for _ in range(width)))
    return count / (time() - began)
