"""The receiver of webhooks, which writes each event into the book before it responds."""

from __future__ import annotations

import hashlib
import json

from staffbooking_adapters.testing.receivers import Behaviour, ReceiverConnection
from tests.kills.book import Book

_NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"


def record_receipts(book: Book) -> Behaviour:
    """Reads each request, writes it into the book, then responds with 204."""

    async def behave(connection: ReceiverConnection) -> None:
        while (request := await connection.request()) is not None:
            event = json.loads(request.body)
            await book.write(
                "receipt",
                endpoint=request.line.split()[1].rpartition("/")[2],
                event=event["id"],
                name=event["event"],
                sequence=event["sequence"],
                booking=event["data"].get("booking", event["data"]).get("booking_code"),
                digest=hashlib.sha256(request.body).hexdigest(),
            )
            await connection.write(_NO_CONTENT)

    return behave
