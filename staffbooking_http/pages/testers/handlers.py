"""The collection of all handlers of testers' pages."""

from staffbooking_http.pages.testers import mails, sign_in

PAGES = (*sign_in.PAGES, *mails.PAGES)
