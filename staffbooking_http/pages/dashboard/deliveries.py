"""The delivery log of a webhook endpoint, one delivery with its attempts and body, and what sends
events: tests and redeliveries."""

import json
from datetime import timedelta
from typing import Annotated, Any

from attrs import frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.bounds import TextBounds
from staffbooking_core.domain.webhooks.deliveries import WEBHOOK_EVENTS, DeliveryGroup
from staffbooking_core.representations.events import TEST_EVENT_NAME
from staffbooking_core.usecases.accounts import api_keys
from staffbooking_core.usecases.webhooks import delivery_log
from staffbooking_http.api.query_string import PageNumber
from staffbooking_http.pages.dashboard.access import lead_to, open_form, open_subscriber_visit
from staffbooking_http.pages.dashboard.endpoints import ENDPOINT_PATH, endpoint_path
from staffbooking_http.pages.dashboard.forms import read_values
from staffbooking_http.pages.session import PageRequest, flash_text, read_query

_DELIVERY_PATH = f"{ENDPOINT_PATH}/deliveries/{{delivery:str}}"
_PAGE_SIZE = 20
_NO_KEY = "ps_…"
"""What stands in a line for programs in place of a key, while there is none."""
_EVENTS = (*WEBHOOK_EVENTS, TEST_EVENT_NAME)
_REDELIVERY_HOURS = (1, 24, 7 * 24, 30 * 24)

_FLASH_TEXTS = {
    "changed": "Your changes are saved.",
    "paused": "Paused. Events are kept meanwhile.",
    "resumed": "Resumed. What was kept is being sent.",
    "activated": "From now on only the new secret signs.",
    "redelivered": "The failed deliveries are being sent again.",
    "nothing": "No delivery has failed in that time.",
}
_DELIVERY_FLASH_TEXTS = {"again": "It is being sent again, with the same id and the same bytes."}


@frozen(kw_only=True)
class _LogQuery:
    """Which deliveries are shown."""

    state: DeliveryGroup | None = None
    event: Annotated[str, TextBounds(100, 0)] = ""
    page: PageNumber = 1


@get(ENDPOINT_PATH)
async def show_log(request: PageRequest) -> Template:
    """Show an endpoint with its health and a page of its deliveries."""
    visit = await open_subscriber_visit(request)
    call = visit.call
    wanted = read_query(call, _LogQuery)
    found = await delivery_log.read_log(
        call.ports,
        visit.user,
        call.path_id("Webhook"),
        wanted.page,
        _PAGE_SIZE,
        wanted.state,
        wanted.event or None,
    )
    keys = await api_keys.list_keys(call.ports, visit.user)
    masked_keys = (key.masked_key for key in keys if key.is_active(call.now))
    return visit.render(
        "webhook.html",
        masked_key=next(masked_keys, _NO_KEY),
        endpoint=found.endpoint,
        log=found,
        wanted=wanted,
        groups=list(DeliveryGroup),
        all_events=_EVENTS,
        redelivery_hours=_REDELIVERY_HOURS,
        is_rotating=found.endpoint.secrets.effective_at(call.now).next is not None,
        done=flash_text(call, _FLASH_TEXTS),
    )


@get(_DELIVERY_PATH)
async def show_delivery(request: PageRequest) -> Template:
    """Show a delivery: its attempts, and what is sent."""
    visit = await open_subscriber_visit(request)
    call = visit.call
    found = await delivery_log.get_delivery(
        call.ports, visit.user, call.path_id("Webhook"), call.path_id("Delivery", 1)
    )
    return visit.render(
        "delivery.html",
        endpoint=found.endpoint,
        delivery=found.log.delivery,
        attempts=found.log.attempts,
        body=found.body.decode(),
        pretty_body=pretty_json(found.body),
        done=flash_text(call, _DELIVERY_FLASH_TEXTS),
    )


def pretty_json(encoded: bytes) -> str:
    """A JSON document on indented lines, for people; empty for no document."""
    return json.dumps(json.loads(encoded), indent=2, ensure_ascii=False) if encoded else ""


# Sending --------------------------------------------------------------------------------


@post(f"{ENDPOINT_PATH}/test", status_code=200)
async def send_test(request: PageRequest) -> Redirect:
    """Send a test event now, and lead to its delivery."""
    visit, _ = await open_form(request, of_webhooks=True)
    number = visit.call.path_id("Webhook")
    sent = await delivery_log.send_test_event(visit.ports, visit.user, number)
    return lead_to(f"{endpoint_path(number)}/deliveries/{sent.delivery.id}")


@post(f"{_DELIVERY_PATH}/redelivery", status_code=200)
async def redeliver(request: PageRequest) -> Redirect:
    """Send the event of a delivery again."""
    visit, _ = await open_form(request, of_webhooks=True)
    number, delivery_id = visit.call.path_id("Webhook"), visit.call.path_id("Delivery", 1)
    await delivery_log.redeliver(visit.ports, visit.user, delivery_id, number)
    return lead_to(f"{endpoint_path(number)}/deliveries/{delivery_id}", "again")


@post(f"{ENDPOINT_PATH}/redeliveries", status_code=200)
async def redeliver_failed(request: PageRequest) -> Redirect:
    """Send again what has failed in the chosen time."""
    visit, form = await open_form(request, of_webhooks=True)
    number, hours = visit.call.path_id("Webhook"), read_values(form).text("hours")
    chosen = int(hours) if hours in map(str, _REDELIVERY_HOURS) else _REDELIVERY_HOURS[0]
    since = visit.ports.clock.wall() - timedelta(hours=chosen)
    count = await delivery_log.redeliver_failed(visit.ports, visit.user, number, since)
    return lead_to(endpoint_path(number), "redelivered" if count else "nothing")


PAGES: tuple[Any, ...] = (show_log, show_delivery, send_test, redeliver, redeliver_failed)
