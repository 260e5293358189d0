"""The secret of a webhook endpoint: a new one beside the old one, then alone."""

from collections.abc import Mapping
from typing import Any

from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.errors import RuleBroken
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.webhooks import endpoints
from staffbooking_http.pages.dashboard.access import lead_to, open_form, open_subscriber_visit
from staffbooking_http.pages.dashboard.endpoints import (
    ENDPOINT_PATH,
    endpoint_path,
    find_endpoint,
)
from staffbooking_http.pages.dashboard.forms import run_once
from staffbooking_http.pages.session import PageRequest

_PATH = f"{ENDPOINT_PATH}/secret"


@get(_PATH)
async def show_secret(request: PageRequest) -> Template:
    """Show whether a new secret waits, and the buttons of the two steps of its change."""
    visit = await open_subscriber_visit(request)
    endpoint = await find_endpoint(visit)
    return visit.render(
        "webhook_rotation.html",
        endpoint=endpoint,
        secrets=endpoint.secrets.effective_at(visit.call.now),
        token=visit.ports.ids.token(),
    )


@post(_PATH, status_code=200)
async def rotate_secret(request: PageRequest) -> Template:
    """Make a new secret, which signs beside the old one, and show it, this once."""
    visit, form = await open_form(request, of_webhooks=True)
    number = visit.call.path_id("Webhook")

    async def work(ports: Ports) -> Mapping[str, Any]:
        secret, _ = await endpoints.rotate_secret(ports, visit.user, number)
        return {"secret": secret}

    shown = await run_once(visit, form, work)
    endpoint = await find_endpoint(visit)
    return visit.render(
        "webhook_secret.html",
        endpoint=endpoint,
        secret=shown["secret"],
        overlap_until=endpoint.secrets.effective_at(visit.call.now).next_from,
    )


@post(f"{_PATH}/activation", status_code=200)
async def activate_secret(request: PageRequest) -> Redirect:
    """Sign with the new secret alone from now on."""
    visit, _ = await open_form(request, of_webhooks=True)
    number = visit.call.path_id("Webhook")
    try:
        await endpoints.activate_secret(visit.ports, visit.user, number)
    except RuleBroken:  # The overlap has ended, or another tab was first: it is so already.
        return lead_to(endpoint_path(number))
    return lead_to(endpoint_path(number), "activated")


PAGES = (show_secret, rotate_secret, activate_secret)
