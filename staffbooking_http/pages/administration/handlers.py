"""The collection of all handlers of operators' pages."""

from staffbooking_http.pages.administration import disputes, overview

PAGES = (*overview.PAGES, *disputes.PAGES)
