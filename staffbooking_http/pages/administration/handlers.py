"""The collection of all handlers of operators' pages."""

from staffbooking_http.pages.administration import (
    audit,
    disputes,
    money,
    overview,
    people,
    reconciliation,
)

PAGES = (
    *overview.PAGES,
    *audit.PAGES,
    *disputes.PAGES,
    *money.PAGES,
    *people.PAGES,
    *reconciliation.PAGES,
)
