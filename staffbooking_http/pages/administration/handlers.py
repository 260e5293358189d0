"""The collection of all handlers of operators' pages."""

from staffbooking_http.pages.administration import overview

PAGES = (*overview.PAGES,)
