"""The collection of all handlers of testers' pages."""

from staffbooking_http.pages.testers import clock, faults, mails, sign_in, tour

PAGES = (*sign_in.PAGES, *tour.PAGES, *clock.PAGES, *mails.PAGES, *faults.PAGES)
