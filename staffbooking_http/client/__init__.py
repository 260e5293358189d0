"""A client of the API by key, for other programs: it needs httpx and nothing of the server.

    with Client("https://staff.example", api_key) as client:
        for companion in client.search(location="Lisbon"):
            print(companion["first_name"], companion["hourly_rate"])

`AsyncClient` has the same methods to await. `errors` has what they raise, `shapes` what they
return. docs/client.md shows every call.
"""

from staffbooking_core.webhook_receiver import WebhookReceiver, WebhookRefused

try:
    from staffbooking_http.client import errors, shapes
    from staffbooking_http.client.clients import AsyncClient, Client
    from staffbooking_http.client.exchange import Retries
    from staffbooking_http.client.feed import Cursor, FileCursor
except ModuleNotFoundError as error:
    if error.name != "httpx":
        raise
    from staffbooking_adapters.extras import MissingExtra

    raise MissingExtra("client") from None

__all__ = [
    "AsyncClient",
    "Client",
    "Cursor",
    "FileCursor",
    "Retries",
    "WebhookReceiver",
    "WebhookRefused",
    "errors",
    "shapes",
]
