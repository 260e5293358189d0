"""The collection of all handlers of operators' pages."""

from staffbooking_http.pages.administration import (
    approvals,
    disputes,
    endpoints,
    inquiries,
    money,
    overview,
    people,
    person_decisions,
    reviews,
)

PAGES = (
    *overview.PAGES,
    *disputes.PAGES,
    *money.PAGES,
    *people.PAGES,
    *person_decisions.PAGES,
    *approvals.PAGES,
    *reviews.PAGES,
    *inquiries.PAGES,
    *endpoints.PAGES,
)
