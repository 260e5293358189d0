"""Who takes part in the sample's scenarios."""

from __future__ import annotations

from attrs import frozen

from staffbooking_cli.sample.actions import Person, StaffMember

CUSTOMER_EMAIL = "customer@demo.test"
SECOND_CUSTOMER_EMAIL = "second.customer@demo.test"
ENTERPRISE_EMAIL = "enterprise@demo.test"
ADMIN_EMAIL, ADMIN_NAME = "admin@demo.test", ("Ada", "Keeper")
GUESTS = (
    ("helena.prado@demo.test", "Helena", "Prado"),
    ("tom.archer@demo.test", "Tom", "Archer"),
    ("yuki.mori@demo.test", "Yuki", "Mori"),
    ("paul.brandt@demo.test", "Paul", "Brandt"),
    ("amara.diallo@demo.test", "Amara", "Diallo"),
)
"""Customers who only booked in the past: nobody signs in as them."""


@frozen
class Participants:
    """The people of the scenarios. The first customer and the first staff member are those whom the
    demo's visitors sign in as."""

    customer: Person
    second_customer: Person
    enterprise: Person
    guests: tuple[Person, ...]
    staff: StaffMember
    """Free at any time."""
    colleagues: tuple[StaffMember, ...]
    """The others in the same city."""
    others: tuple[StaffMember, ...]
    """In other cities."""
