"""The collection of all handlers of operators' pages."""

from staffbooking_http.pages.administration import (
    disputes,
    money,
    overview,
    people,
    person_decisions,
)

PAGES = (
    *overview.PAGES,
    *disputes.PAGES,
    *money.PAGES,
    *people.PAGES,
    *person_decisions.PAGES,
)
