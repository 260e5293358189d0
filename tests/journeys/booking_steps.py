"""Actions of people on the pages of a booking, and the texts that both sides then read.

The texts are patterns.
"""

from __future__ import annotations

import re
from datetime import date

from tests.journeys.marketplace import HOURS, LOCATION, SERVICE, START_TIME
from tests.journeys.people import Person

READ_BY_CUSTOMER = {
    "requested": "who answers next",
    "declined": "can't take it",
    "unanswered": "did not answer in time",
    "to pay": "said yes. Pay",
    "unpaid": "was not paid in time",
    "confirmed": "You are all set",
    "check-in open": "It is nearly time",
    "checked in": "has checked in",
    "not checked in": "has not checked in",
    "to confirm": "The event is over",
    "completed": "It took place",
    "disputed by customer": "You have told your side",
    "disputed by staff": "There is a dispute",
    "no-show": "You reported that",
    "cancelled by customer": "You cancelled it",
    "cancelled by staff": "cancelled it",
}
READ_BY_STAFF = {
    "requested": "would like to book you",
    "declined": "You declined it",
    "unanswered": "It lapsed: you did not answer",
    "to pay": "You said yes",
    "unpaid": "did not pay in time",
    "confirmed": "You are booked",
    "check-in open": "Check in when you are there",
    "checked in": "You have checked in",
    "not checked in": "you have not checked in",
    "to confirm": "The event is over",
    "completed": "It took place",
    "disputed by customer": "There is a dispute",
    "disputed by staff": "You have told your side",
    "no-show": "reported that you did not come",
    "cancelled by customer": "cancelled it",
    "cancelled by staff": "You cancelled it",
}


def open_booking(person: Person, booking_id: int) -> None:
    person.open(f"/bookings/{booking_id}/return")


def both_read(customer: Person, staff: Person, booking_id: int, situation: str) -> None:
    """Both sides load the booking, and read the text of its situation."""
    for person, words in ((customer, READ_BY_CUSTOMER), (staff, READ_BY_STAFF)):
        open_booking(person, booking_id)
        person.reads(words[situation])


def request_booking(customer: Person, day: date) -> int:
    """Fill in the request for the staff member, and send it."""
    customer.open(f"/companions/{customer.market.user_id('staff')}/request")
    customer.fill("Date", day.isoformat())
    customer.fill("Start", START_TIME)
    customer.fill("Hours", str(HOURS))
    customer.choose("Service", SERVICE)
    customer.fill("Place", LOCATION)
    customer.press("Send the request")
    customer.page.wait_for_url(re.compile(r"/bookings/\d+/return"))
    return int(customer.page.url.split("/bookings/")[1].split("/")[0])


def accept(staff: Person) -> None:
    staff.press("Accept the request")


def decline(staff: Person) -> None:
    staff.press("Decline the request", behind="Decline")


def open_checkout(customer: Person) -> None:
    """Go from the booking to the processor's page by its one link or button."""
    name = re.compile("^(Go to the payment page|Pay .+)$")
    link = customer.main.get_by_role("link", name=name)
    link.or_(customer.main.get_by_role("button", name=name)).click()
    customer.page.wait_for_url(re.compile("/checkout/"))


def pay(customer: Person, card: str = "4242 4242 4242 4242") -> None:
    """Pay on the processor's page."""
    customer.main.get_by_label("Card number").fill(card)
    customer.press(re.compile("^Pay "))


def return_to_booking(customer: Person) -> None:
    customer.follow("Back to the booking")


def cancel(person: Person) -> None:
    """Ask for the cancellation, and confirm it."""
    person.follow(re.compile("^(Cancel the booking|Withdraw the request)$"))
    person.press("Cancel the booking")
    person.page.wait_for_url(re.compile(r"/return"))


def dispute(person: Person, reason: str) -> None:
    person.follow("Something went wrong")
    person.fill("Tell what happened", reason)
    person.press("Open a dispute")


def withdraw_dispute(person: Person) -> None:
    person.press("Withdraw the dispute", behind="Withdraw the dispute")


def report_absence(customer: Person) -> None:
    customer.press(re.compile("did not come$"))


def review(person: Person, stars: int, comment: str) -> None:
    person.follow("Write a review")
    person.main.get_by_role("radio", name=re.compile(f"^{stars} stars?$")).check(force=True)
    person.fill(re.compile("^Your words"), comment)
    person.press("Give the review")
