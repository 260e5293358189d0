"""What people do at a booking, and the words that both sides then read.

Words are patterns. Where a page is about to be reworded, they allow both wordings.
"""

from __future__ import annotations

import re
from datetime import date

from tests.journeys.marketplace import HOURS, LOCATION, SERVICE, START_TIME
from tests.journeys.people import Person

READ_BY_CUSTOMER = {
    "requested": "waits for the answer|who answers next",
    "declined": "is cancelled|can't take it",
    "unanswered": "is cancelled|did not answer in time",
    "to pay": "not paid yet|said yes. Pay",
    "unpaid": "is cancelled|was not paid in time",
    "confirmed": "Paid, thank you|You are all set",
    "check-in open": "held in escrow|It is nearly time",
    "checked in": "held in escrow|has checked in",
    "not checked in": "held in escrow|has not checked in",
    "to confirm": "held in escrow|The event is over",
    "completed": "has taken place|It took place",
    "disputed": "in dispute|There is a dispute",
    "no-show": "in dispute|You reported that",
    "cancelled by customer": "is cancelled|You cancelled it",
    "cancelled by staff": "is cancelled|cancelled it",
}
READ_BY_STAFF = {
    "requested": "accept or decline|would like to book you",
    "declined": "is cancelled|You declined it",
    "unanswered": "is cancelled|It lapsed: you did not answer",
    "to pay": "waits for the customer to pay|You said yes",
    "unpaid": "is cancelled|did not pay in time",
    "confirmed": "held in escrow|You are booked",
    "check-in open": "held in escrow|Check in when you are there",
    "checked in": "held in escrow|You have checked in",
    "not checked in": "held in escrow|you have not checked in",
    "to confirm": "held in escrow|The event is over",
    "completed": "has taken place|It took place",
    "disputed": "in dispute|There is a dispute",
    "no-show": "in dispute|reported that you did not come",
    "cancelled by customer": "is cancelled|cancelled it",
    "cancelled by staff": "is cancelled|You cancelled it",
}


def open_booking(person: Person, booking_id: int) -> None:
    person.open(f"/bookings/{booking_id}/return")


def both_read(customer: Person, staff: Person, booking_id: int, situation: str) -> None:
    """Both sides load the booking, and read where it stands."""
    for person, words in ((customer, READ_BY_CUSTOMER), (staff, READ_BY_STAFF)):
        open_booking(person, booking_id)
        person.reads(words[situation])


def request_booking(customer: Person, day: date) -> int:
    """Fill in the request for the staff member, and send it."""
    customer.open(f"/companions/{customer.market.user_id('staff')}/request")
    customer.fill(re.compile(r"^\s*(Event date|Date)\b"), day.isoformat())
    customer.fill(re.compile(r"^\s*Start\b"), START_TIME)
    customer.fill(re.compile(r"^\s*(Duration in hours|Hours)\b"), str(HOURS))
    customer.choose(re.compile(r"^\s*Service\b"), SERVICE)
    customer.fill(re.compile(r"^\s*(Location|Place)\b"), LOCATION)
    customer.press("Send the request")
    customer.page.wait_for_url(re.compile(r"/bookings/\d+/return"))
    return int(customer.page.url.split("/bookings/")[1].split("/")[0])


def accept(staff: Person) -> None:
    staff.press(re.compile("^Accept"))


def decline(staff: Person) -> None:
    staff.press(re.compile("^Decline"), behind="Decline")


def open_checkout(customer: Person) -> None:
    """Come from the booking to the processor's page, in one or two steps."""
    way = re.compile("^(Open the checkout|Go to the (checkout|payment page)|Pay .+)$")
    for _ in range(2):
        links = customer.main.get_by_role("link", name=way)
        (links if links.count() else customer.main.get_by_role("button", name=way)).click()
        if "/checkout/" in customer.page.url:
            return
    raise AssertionError(f"no checkout at {customer.page.url}")


def pay(customer: Person, card: str = "4242 4242 4242 4242") -> None:
    """Pay on the processor's page."""
    customer.main.get_by_label(re.compile(r"^\s*Card")).fill(card)
    customer.press(re.compile("^Pay "))


def return_to_booking(customer: Person) -> None:
    customer.follow("Back to the booking")


def cancel(person: Person) -> None:
    """Ask for the cancellation, and confirm it."""
    person.follow(re.compile("^(Cancel the booking|Withdraw the request)"))
    person.press("Cancel the booking")
    person.page.wait_for_url(re.compile(r"/return"))


def dispute(person: Person, reason: str) -> None:
    """Open a dispute: by a form that is folded away, or on a page of its own."""
    link = person.main.get_by_role("link", name="Something went wrong", exact=True)
    if link.count():
        link.click()
    else:
        person.main.locator("summary", has_text="Something went wrong").click()
    person.main.get_by_label(re.compile(r"^\s*(What|Tell what happened)")).fill(reason)
    person.press("Open a dispute")


def withdraw_dispute(person: Person) -> None:
    person.press("Withdraw the dispute", behind="Withdraw the dispute")


def report_absence(customer: Person) -> None:
    customer.press(re.compile("did not come$"))


def review(person: Person, stars: int, comment: str) -> None:
    person.follow("Write a review")
    person.main.get_by_role("radio", name=re.compile(f"^{stars}( stars?)?$")).check(force=True)
    person.fill(re.compile(r"^\s*(What would you tell others|Your words)"), comment)
    person.press("Give the review")
