"""The collection of all handlers of operators' pages."""

from staffbooking_http.pages.administration import (
    approvals,
    audit,
    disputes,
    endpoints,
    inquiries,
    money,
    overview,
    people,
    reconciliation,
    reviews,
)

PAGES = (
    *overview.PAGES,
    *approvals.PAGES,
    *audit.PAGES,
    *disputes.PAGES,
    *endpoints.PAGES,
    *inquiries.PAGES,
    *money.PAGES,
    *people.PAGES,
    *reconciliation.PAGES,
    *reviews.PAGES,
)
