"""The feed of events, the newest first."""

from attrs import frozen
from litestar import get
from litestar.response import Template

from staffbooking_adapters import codec
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.webhooks.deliveries import WEBHOOK_EVENTS
from staffbooking_core.inputs import Id
from staffbooking_core.usecases.webhooks.feed import read_latest_events
from staffbooking_http.pages.dashboard.access import DASHBOARD_PATH, open_subscriber_visit
from staffbooking_http.pages.dashboard.deliveries import pretty_json
from staffbooking_http.pages.session import PageRequest, read_query

_PATH = f"{DASHBOARD_PATH}/events"
_PAGE_SIZE = 20


@frozen(kw_only=True)
class _EventsQuery:
    """Which events are shown."""

    event: EventName | None = None
    before: Id | None = None


@get(_PATH)
async def show_events(request: PageRequest) -> Template:
    """Show a page of the visitor's events, each with its body."""
    visit = await open_subscriber_visit(request)
    wanted = read_query(visit.call, _EventsQuery)
    page = await read_latest_events(
        visit.ports, visit.user, wanted.before, wanted.event, _PAGE_SIZE
    )
    return visit.render(
        "events.html",
        events=[(codec.decode(body), pretty_json(body)) for body in page.events],
        names=[name for name in WEBHOOK_EVENTS if name in page.names or name is wanted.event],
        unread_names=[name for name in WEBHOOK_EVENTS if name not in page.names],
        wanted=wanted,
        next_before=page.next_before,
    )


PAGES = (show_events,)
