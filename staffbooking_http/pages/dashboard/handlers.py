"""The collection of all handlers of the subscribers' pages."""

from staffbooking_http.pages.dashboard import (
    deliveries,
    endpoints,
    events,
    keys,
    overview,
    secrets,
)

PAGES = (
    *overview.PAGES,
    *keys.PAGES,
    *endpoints.PAGES,
    *secrets.PAGES,
    *deliveries.PAGES,
    *events.PAGES,
)
