"""The first page of the dashboard: the subscription, what it permits, and what is used of it."""

from datetime import timedelta

from litestar import get
from litestar.response import Template

from staffbooking_core.usecases.accounts import api_keys
from staffbooking_core.usecases.accounts.usage import read_calls, read_usage
from staffbooking_core.usecases.webhooks import endpoints
from staffbooking_http.pages.dashboard.access import (
    DASHBOARD_PATH,
    SubscriptionState,
    open_visit,
)
from staffbooking_http.pages.dashboard.charts import draw_calls
from staffbooking_http.pages.session import PageRequest

_EXPIRY_NOTICE = timedelta(days=14)
"""How long before its end the page says that a key or the subscription ends."""


@get(DASHBOARD_PATH)
async def show_overview(request: PageRequest) -> Template:
    """Show the subscription with its keys, webhooks and limits; others read how to subscribe."""
    visit = await open_visit(request)
    if visit.state is SubscriptionState.NONE:
        return visit.render("subscribe.html")
    call, user = visit.call, visit.user
    all_keys = await api_keys.list_keys(call.ports, user)
    keys = [key for key in all_keys if key.is_active(call.now)]
    found = await endpoints.list_endpoints(call.ports, user)
    soon = call.now + _EXPIRY_NOTICE
    ends_at = user.subscription_expires_at
    return visit.render(
        "overview.html",
        keys=keys,
        newest_key=keys[0] if keys else None,
        ending_keys=[key for key in keys if key.expires_at is not None and key.expires_at <= soon],
        endpoints=found,
        silent_endpoints=[each for each in found if each.disabled_at or each.consecutive_failures],
        usage=await read_usage(call.ports, user, keys),
        chart=draw_calls(
            await read_calls(call.ports, all_keys), call.ports.policy.limits.general.limit
        ),
        ends_soon=ends_at is not None and call.now < ends_at <= soon,
    )


PAGES = (show_overview,)
