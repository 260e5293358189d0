"""Webhook endpoints that give no sign of life, as operators see and enable them."""

from attrs import frozen
from litestar import get
from litestar.response import Redirect, Template

from staffbooking_core.domain.accounts.audit import AuditSubject
from staffbooking_core.inputs import ChangeWebhook, Id
from staffbooking_core.operator_inputs import DecideEndpoint, EndpointAct
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.webhooks import endpoints, silent_endpoints
from staffbooking_http.api.endpoint import Call, SignedInUser
from staffbooking_http.pages.administration.access import require_operator
from staffbooking_http.pages.administration.decision_pages import Decision, decision_page
from staffbooking_http.pages.administration.lists import ROWS_OF_A_PAGE, rows_before
from staffbooking_http.pages.session import (
    PageRequest,
    flash_text,
    get_call,
    read_query,
    render,
)

_LIST_PATH = "/admin/endpoints"

_FLASH_TEXTS = {
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
    operator = await require_operator(call)
    before = read_query(call, _EndpointsQuery).before
    found = await silent_endpoints.list_silent_endpoints(call.ports, before, ROWS_OF_A_PAGE)
    return render(
        "admin/endpoints.html",
        operator,
        disable_after=call.ports.policy.webhook_disable_after,
        done=flash_text(call, _FLASH_TEXTS),
        **rows_before(found, before, lambda each: each.endpoint.id),
    )


async def _ask(call: Call, _: SignedInUser) -> Decision:
    """Whether the endpoint is enabled, or paused."""
    case = await silent_endpoints.get_endpoint_case(call.ports, call.path_id("Webhook"))
    endpoint = case.endpoint.endpoint

    async def change(ports: Ports, given: DecideEndpoint) -> Redirect:
        if given.act is EndpointAct.ENABLE:
            await endpoints.enable_endpoint(ports, None, endpoint.id)
        else:
            await endpoints.update_endpoint(ports, None, endpoint.id, ChangeWebhook(active=False))
        return Redirect(f"{_LIST_PATH}?{given.act}", status_code=303)

    return Decision(
        template="admin/endpoint.html",
        subject=AuditSubject.WEBHOOK,
        subject_id=endpoint.id,
        leads_to=_LIST_PATH,
        form=DecideEndpoint,
        change=change,
        context={
            "endpoint": endpoint,
            "person": case.endpoint.owner,
            "deliveries": case.deliveries,
            "wanted": EndpointAct.DISABLE if endpoint.active else EndpointAct.ENABLE,
        },
    )


PAGES = (list_endpoints, *decision_page(_LIST_PATH + "/{number:str}", _ask))
