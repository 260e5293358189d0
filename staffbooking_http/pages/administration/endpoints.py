"""Webhook endpoints that give no sign of life, as operators see and enable them."""

from attrs import frozen
from litestar import get, post
from litestar.response import Redirect, Template

from staffbooking_core.domain.accounts.audit import AuditSubject
from staffbooking_core.inputs import ChangeWebhook, Id
from staffbooking_core.operator_inputs import DecideEndpoint, EndpointAct
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.webhooks import endpoints, silent_endpoints
from staffbooking_http.api import query_string
from staffbooking_http.api.endpoint import Call
from staffbooking_http.pages.administration.access import require_operator
from staffbooking_http.pages.administration.decision_pages import (
    Decision,
    show_decision,
    take_decision,
)
from staffbooking_http.pages.session import (
    PageRequest,
    drop_empty_fields,
    flash_text,
    get_call,
    render,
)

_LIST_PATH = "/admin/endpoints"
_PAGE_SIZE = 20

_DONE_TEXTS = {
    "enable": "The endpoint is enabled; what was held is being sent.",
    "disable": "The endpoint is paused; its deliveries are held.",
}
"""Messages of the list by flash code in the query string."""


@frozen(kw_only=True)
class _EndpointsQuery:
    before: Id | None = None


@get(_LIST_PATH)
async def list_endpoints(request: PageRequest) -> Template:
    """Show the endpoints that were disabled, or whose deliveries fail."""
    call = get_call(request)
    visitor = await require_operator(call)
    given = drop_empty_fields(call.scope["query_string"])
    before_id = query_string.parse_query(_EndpointsQuery, given).before
    found = await silent_endpoints.list_silent_endpoints(call.ports, before_id, _PAGE_SIZE)
    return render(
        "admin/endpoints.html",
        visitor,
        endpoints=found[:_PAGE_SIZE],
        next_before=found[_PAGE_SIZE - 1].endpoint.id if len(found) > _PAGE_SIZE else None,
        is_first=before_id is None,
        disable_after=call.ports.policy.webhook_disable_after,
        done=flash_text(call, _DONE_TEXTS),
    )


async def _ask(call: Call) -> Decision:
    case = await silent_endpoints.get_endpoint_case(call.ports, call.path_id("Webhook"))
    endpoint = case.endpoint.endpoint
    return Decision(
        template="admin/endpoint.html",
        subject=AuditSubject.WEBHOOK,
        subject_id=endpoint.id,
        leads_to=_LIST_PATH,
        form=DecideEndpoint,
        context={
            "endpoint": endpoint,
            "person": case.endpoint.owner,
            "deliveries": case.deliveries,
            "wanted": EndpointAct.DISABLE if endpoint.active else EndpointAct.ENABLE,
            "disable_after": call.ports.policy.webhook_disable_after,
        },
    )


@get(_LIST_PATH + "/{number:str}")
async def ask(request: PageRequest) -> Template:
    """Show an endpoint with its newest deliveries, and ask for the reason to enable it."""
    call = get_call(request)
    visitor = await require_operator(call)
    return show_decision(visitor, await _ask(call))


@post(_LIST_PATH + "/{number:str}", status_code=200)
async def change_endpoint(request: PageRequest) -> Template | Redirect:
    """Enable the endpoint, or pause it."""
    call = get_call(request)
    visitor = await require_operator(call)
    decision = await _ask(call)
    number = decision.subject_id

    async def change(ports: Ports, given: DecideEndpoint) -> Redirect:
        if given.act is EndpointAct.ENABLE:
            await endpoints.enable_endpoint(ports, None, number)
        else:
            await endpoints.update_endpoint(ports, None, number, ChangeWebhook(active=False))
        return Redirect(f"{_LIST_PATH}?{given.act}", status_code=303)

    return await take_decision(call, visitor, decision, change)


PAGES = (list_endpoints, ask, change_endpoint)
