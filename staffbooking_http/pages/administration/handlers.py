"""The collection of all handlers of operators' pages."""

from staffbooking_http.pages.administration import (
    audit,
    disputes,
    money,
    overview,
    people,
    person_decisions,
    reconciliation,
)

PAGES = (
    *overview.PAGES,
    *disputes.PAGES,
    *money.PAGES,
    *audit.PAGES,
    *people.PAGES,
    *person_decisions.PAGES,
    *reconciliation.PAGES,
)
