"""Webhook endpoints: listed, added, changed, paused and deleted."""

from collections.abc import Mapping
from typing import Any

from attrs import frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.domain.webhooks.deliveries import (
    DEFAULT_WEBHOOK_EVENTS,
    WEBHOOK_EVENTS,
    WebhookEndpoint,
)
from staffbooking_core.domain.webhooks.url_safety import validate_webhook_url
from staffbooking_core.errors import FieldError, InvalidInput, RuleBroken
from staffbooking_core.inputs import ChangeWebhook, CreateWebhook
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.webhooks import endpoints
from staffbooking_core.usecases.webhooks.endpoints import get_endpoint
from staffbooking_http.pages.dashboard.access import (
    DASHBOARD_PATH,
    Visit,
    lead_to,
    open_draft,
    open_form,
    open_subscriber_visit,
)
from staffbooking_http.pages.dashboard.forms import (
    FormValues,
    read_values,
    run_once,
    structure_form,
)
from staffbooking_http.pages.session import PageRequest, flash_text

WEBHOOKS_PATH = f"{DASHBOARD_PATH}/webhooks"
ENDPOINT_PATH = f"{WEBHOOKS_PATH}/{{number:str}}"
_FLASH_TEXTS = {"deleted": "The webhook is deleted. Nothing more is sent to it."}


@frozen
class _EndpointDraft:
    """The fields of the form of an endpoint."""

    url: str = ""
    description: str = ""
    events: tuple[str, ...] = ()
    ordered: bool = False


def _draft_of(endpoint: WebhookEndpoint) -> _EndpointDraft:
    names = tuple(str(event) for event in endpoint.events)
    return _EndpointDraft(endpoint.url, endpoint.description or "", names, endpoint.ordered)


def _read_draft(values: FormValues) -> _EndpointDraft:
    return _EndpointDraft(
        values.text("url").strip(),
        values.text("description"),
        tuple(values.texts("events")),
        values.text("ordered") == "true",
    )


@get(WEBHOOKS_PATH)
async def show_endpoints(request: PageRequest) -> Template:
    """List the endpoints with their health."""
    visit = await open_subscriber_visit(request)
    found = await endpoints.list_endpoints(visit.ports, visit.user)
    done = flash_text(visit.call, _FLASH_TEXTS)
    return visit.render("webhooks.html", endpoints=found, done=done)


# Adding ---------------------------------------------------------------------------------


@get(f"{WEBHOOKS_PATH}/new")
async def show_new_endpoint(request: PageRequest) -> Template:
    """Show the form of a new endpoint."""
    visit = await open_subscriber_visit(request)
    usual = tuple(str(event) for event in WEBHOOK_EVENTS if event in DEFAULT_WEBHOOK_EVENTS)
    return visit.render("webhook_new.html", **_form_context(visit, _EndpointDraft(events=usual)))


@post(f"{WEBHOOKS_PATH}/new", status_code=200)
async def add_endpoint(request: PageRequest) -> Template:
    """Register an endpoint and show its secret, this once."""
    visit, form = await open_draft(request, of_webhooks=True)
    draft = _read_draft(read_values(form))
    try:
        await visit.count()
        command = _read_command(visit, draft)

        async def work(ports: Ports) -> Mapping[str, Any]:
            endpoint, secret = await endpoints.register_endpoint(ports, visit.user, command)
            return {"secret": secret, "id": endpoint.id}

        shown = await run_once(visit, form, work)
    except (InvalidInput, RateLimitExceeded, RuleBroken) as error:
        return visit.render_error("webhook_new.html", error, **_form_context(visit, draft))
    endpoint = await get_endpoint(visit.ports, visit.user, shown["id"])
    return visit.render("webhook_secret.html", endpoint=endpoint, secret=shown["secret"])


def _read_command(visit: Visit, draft: _EndpointDraft) -> CreateWebhook:
    further = []
    if draft.url:
        insecure = visit.ports.policy.webhook_allow_insecure
        try:
            validate_webhook_url(draft.url, allow_insecure=insecure)
        except ValueError as error:
            further.append(FieldError("url", str(error)))
    given = {
        "url": draft.url,
        "description": draft.description,
        "events": list(draft.events),
        "ordered": draft.ordered,
    }
    fillers = {"url": "https://example.com/"}
    return structure_form(CreateWebhook, given, fillers, [*further, *_event_faults(draft)])


def _event_faults(draft: _EndpointDraft) -> list[FieldError]:
    return [] if draft.events else [FieldError("events", "Choose at least one event")]


def _form_context(visit: Visit, draft: _EndpointDraft) -> dict[str, Any]:
    token = visit.ports.ids.token()
    return {"draft": draft, "token": token, "all_events": WEBHOOK_EVENTS}


# Changing -------------------------------------------------------------------------------


@get(f"{ENDPOINT_PATH}/settings")
async def show_settings(request: PageRequest) -> Template:
    """Show the form that changes an endpoint."""
    visit = await open_subscriber_visit(request)
    endpoint = await find_endpoint(visit)
    context = _form_context(visit, _draft_of(endpoint))
    return visit.render("webhook_settings.html", endpoint=endpoint, **context)


@post(f"{ENDPOINT_PATH}/settings", status_code=200)
async def change_endpoint(request: PageRequest) -> Template | Redirect:
    """Change the events, the description and the order of an endpoint."""
    visit, form = await open_draft(request, of_webhooks=True)
    endpoint, draft = await find_endpoint(visit), _read_draft(read_values(form))
    try:
        await visit.count()
        given = {"events": list(draft.events), "ordered": draft.ordered}
        command = structure_form(ChangeWebhook, given, {}, _event_faults(draft))
        described = structure_form(
            ChangeWebhook, {"description": draft.description} if draft.description else {}, {}
        )
        await endpoints.update_endpoint(
            visit.ports,
            visit.user,
            endpoint.id,
            ChangeWebhook(
                events=command.events,
                ordered=command.ordered,
                description=described.description or "",
            ),
        )
    except (InvalidInput, RateLimitExceeded) as error:
        context = _form_context(visit, draft)
        return visit.render_error("webhook_settings.html", error, endpoint=endpoint, **context)
    return lead_to(endpoint_path(endpoint.id), "changed")


@post(f"{ENDPOINT_PATH}/pause", status_code=200)
async def pause_endpoint(request: PageRequest) -> Redirect:
    """Hold the deliveries of an endpoint until it is resumed."""
    return await _set_active(request, "paused", active=False)


@post(f"{ENDPOINT_PATH}/resumption", status_code=200)
async def resume_endpoint(request: PageRequest) -> Redirect:
    """Send to an endpoint again, what was held first."""
    return await _set_active(request, "resumed", active=True)


async def _set_active(request: PageRequest, flash_code: str, *, active: bool) -> Redirect:
    visit, _ = await open_form(request, of_webhooks=True)
    number = visit.call.path_id("Webhook")
    command = ChangeWebhook(active=active)
    await endpoints.update_endpoint(visit.ports, visit.user, number, command)
    return lead_to(endpoint_path(number), flash_code)


@get(f"{ENDPOINT_PATH}/deletion")
async def show_deletion(request: PageRequest) -> Template:
    """Ask whether an endpoint is to be deleted."""
    visit = await open_subscriber_visit(request)
    return visit.render("webhook_deletion.html", endpoint=await find_endpoint(visit))


@post(f"{ENDPOINT_PATH}/deletion", status_code=200)
async def delete_endpoint(request: PageRequest) -> Redirect:
    """Delete an endpoint."""
    visit, _ = await open_form(request, of_webhooks=True)
    number = visit.call.path_id("Webhook")
    await endpoints.delete_endpoint(visit.ports, visit.user, number)
    return lead_to(WEBHOOKS_PATH, "deleted")


async def find_endpoint(visit: Visit) -> WebhookEndpoint:
    """The endpoint in the path. Raises NotFound."""
    number = visit.call.path_id("Webhook")
    return await get_endpoint(visit.ports, visit.user, number)


def endpoint_path(endpoint_id: int) -> str:
    return f"{WEBHOOKS_PATH}/{endpoint_id}"


PAGES = (
    show_endpoints,
    show_new_endpoint,
    add_endpoint,
    show_settings,
    change_endpoint,
    pause_endpoint,
    resume_endpoint,
    show_deletion,
    delete_endpoint,
)
