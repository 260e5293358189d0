"""The strict converter: exact types, bounds, and all errors at once."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, Any

import pytest
from attrs import fields, frozen
from hypothesis import given, strategies as st

from staffbooking_adapters.inputs import QueryPriceBound, structure, structure_query
from staffbooking_core.bounds import IntegerBounds
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.errors import InvalidField, InvalidInput, MissingField
from staffbooking_core.inputs import (
    CancelBooking,
    ChangeProfile,
    CreateApiKey,
    ImportedCompanion,
    RequestBookingFor,
)

REQUEST: dict[str, Any] = {
    "companion_id": 4,
    "event_date": "2027-03-03",
    "start_time": "09:05",
    "duration_hours": 4,
    "service_type": "Gala dinner",
    "location": "Ångström 1",
    "customer_email": "ada@example.com",
}
ROW: dict[str, Any] = {
    "email": "mia@example.com",
    "first_name": "Mia",
    "last_name": "Lindqvist",
    "hourly_rate": Decimal("100.50"),
    "location_city": "Lisbon",
    "location_country": "Portugal",
    "timezone": "Europe/Lisbon",
    "service_types": ["Gala dinner"],
}


def faults(cls: type, given: dict[str, Any]) -> dict[str, str]:
    """The error messages by field."""
    with pytest.raises(InvalidInput) as caught:
        structure(cls, given)
    return {fault.field: fault.message for fault in caught.value.field_errors}


def test_a_valid_input_is_accepted() -> None:
    """Each field has its type, missing ones their default, and unknown ones are ignored."""
    made = structure(RequestBookingFor, {**REQUEST, "total_amount": 1, "event_ref": None})
    assert (made.companion_id, made.event_date) == (4, date(2027, 3, 3))
    assert (made.cancellation_insurance, made.event_ref) == (False, None)


def test_missing_and_null_fields_are_reported() -> None:
    """All missing and null fields are reported, whatever else is invalid."""
    given = {**REQUEST, "location": None, "duration_hours": "4"}
    del given["companion_id"]
    with pytest.raises(MissingField) as caught:
        structure(RequestBookingFor, given)
    assert {fault.field for fault in caught.value.field_errors} == {"companion_id", "location"}


def test_all_errors_are_reported_at_once() -> None:
    """Values of a wrong type in all fields are reported together."""
    given: dict[str, Any] = {name: [] for name in REQUEST}
    assert set(faults(RequestBookingFor, given)) == set(REQUEST)


def test_nested_errors_have_dotted_names() -> None:
    """A field inside a list is reported by its dotted path."""
    weekly = [{"weekday": 0, "start": "09:00", "end": "24:00"}, {"weekday": 7, "start": 9}, 5]
    given = {**ROW, "weekly": weekly}
    assert set(faults(ImportedCompanion, given)) == {"weekly.1.end"}
    weekly[1]["end"] = "24:01"  # type: ignore[index]
    assert faults(ImportedCompanion, given).keys() == {
        "weekly.1.start",
        "weekly.1.end",
        "weekly.1.weekday",
        "weekly.2",
    }


@pytest.mark.parametrize(
    "odd",
    [
        {"weekday": True},
        {"weekday": Decimal(1)},
        {"start": ["09:00"]},
        {"end": {}},
        {"start": None},
        {"end": "9:00"},
    ],
    ids=str,
)
def test_invalid_hours_are_refused_after_valid_ones(odd: dict[str, Any]) -> None:
    """Invalid hours are refused even if similar valid ones are cached."""
    hours = {"weekday": 1, "start": "09:00", "end": "17:00"}
    assert structure(ImportedCompanion, {**ROW, "weekly": [hours]}).weekly
    [field] = odd
    assert [*faults(ImportedCompanion, {**ROW, "weekly": [{**hours, **odd}]})] == [
        f"weekly.0.{field}"
    ]


def test_lists_are_bounded_and_do_not_repeat() -> None:
    """Length, elements and repetitions are checked; a text is not a list."""
    wanted = structure(CreateApiKey, {"name": "x", "permissions": ["book", "read"]})
    assert wanted.permissions == (Permission.BOOK, Permission.READ)
    for wrong in ([], ["read", "read"], "read", ["read", "write"], ["read"] * 3, {"read": 1}):
        found = faults(CreateApiKey, {"name": "x", "permissions": wrong})
        assert {name.partition(".")[0] for name in found} == {"permissions"}


@pytest.mark.parametrize("names", [["Host", "host"], ["STRASSE", "Straße"], ["é", "e\u0301"]])
def test_names_that_differ_only_in_case_are_duplicates(names: list[str]) -> None:
    """Names that differ only in letter case or normalization are duplicates, in profiles and in
    imports."""
    for cls, row in ((ChangeProfile, {}), (ImportedCompanion, ROW)):
        assert faults(cls, {**row, "service_types": names}) == {
            "service_types": "must not repeat an element"
        }


@pytest.mark.parametrize("rate", ["100", True, None.__class__, Decimal("NaN"), 0, -1, 10**7, 1.5])
def test_money_is_a_number_within_bounds(rate: Any) -> None:
    """Texts, booleans, floats, NaN and amounts out of bounds are refused."""
    assert faults(ImportedCompanion, {**ROW, "hourly_rate": rate}).keys() == {"hourly_rate"}


@pytest.mark.parametrize("rate", ["1e-99999999", "1e-21", "39." + "9" * 32])
def test_money_has_few_digits(rate: str) -> None:
    """An amount with too many digits is refused instead of rounded."""
    given = {**ROW, "hourly_rate": Decimal(rate)}
    assert faults(ImportedCompanion, given) == {"hourly_rate": "must have at most 20 digits"}


def test_the_largest_rate_is_accepted() -> None:
    """The largest amount with decimals is accepted in every notation."""
    for rate in (Decimal("999999.999"), Decimal("1e6"), 1_000_000):
        assert structure(ImportedCompanion, {**ROW, "hourly_rate": rate}).hourly_rate == rate


def test_a_zone_is_an_iana_name() -> None:
    """A time zone that is a path is refused."""
    assert faults(ImportedCompanion, {**ROW, "timezone": "../etc/passwd"}).keys() == {"timezone"}


def test_messages_do_not_contain_the_input() -> None:
    """Error messages do not contain the input, which may not be encodable."""
    for value in ("\ud800", "secret"):
        given = {name: value for name in REQUEST if name not in ("service_type", "location")}
        told = faults(RequestBookingFor, {**REQUEST, **given})
        assert value not in "".join(told.values())


texts = st.text(st.characters()) | st.just("\ud800")
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.decimals() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def named(cls: type, given: dict[str, Any]) -> set[str]:
    """The fields that are refused; empty if the input is accepted."""
    try:
        structure(cls, given)
    except InvalidInput as error:
        return {fault.field.partition(".")[0] for fault in error.field_errors}
    return set()


@given(
    st.sampled_from([RequestBookingFor, CreateApiKey, CancelBooking, ImportedCompanion]), st.data()
)
def test_any_input_is_accepted_or_refused(cls: type, data: st.DataObject) -> None:
    """Any JSON value gives an input or errors by field."""
    names = [field.name for field in fields(cls)]
    good = ROW if cls is ImportedCompanion else REQUEST
    generated = data.draw(st.dictionaries(st.sampled_from(names), json_values, max_size=4))
    assert named(cls, {**good, **generated}) <= set(names)


@frozen(kw_only=True)
class Query:
    page: Annotated[int, IntegerBounds(1, 100)] = 1
    price: Annotated[Decimal, QueryPriceBound()] | None = None


@pytest.mark.parametrize(
    ("text", "price"), [("0", "0"), ("10.005", "10.005"), ("1000000000", "1e9"), ("007", "7")]
)
def test_a_price_of_a_query_is_exact(text: str, price: str) -> None:
    """A price in a query is an exact decimal."""
    assert structure_query(Query, {"price": text}, {}).price == Decimal(price)


@pytest.mark.parametrize("text", ["", "-1", "+1", "1e2", "nan", "inf", ".5", "5.", "1_0", "\u0661"])
def test_other_prices_are_refused(text: str) -> None:
    """Prices other than ASCII digits with an optional fraction are refused."""
    with pytest.raises(InvalidField):
        structure_query(Query, {"price": text}, {})


def test_an_undecodable_parameter_is_reported_with_the_rest() -> None:
    """An undecodable parameter is reported together with the other errors."""
    with pytest.raises(InvalidField) as caught:
        structure_query(Query, {"page": "0", "price": ""}, {"price": "must be in UTF-8"})
    assert [(fault.field, fault.message) for fault in caught.value.field_errors] == [
        ("page", "must be from 1 to 100"),
        ("price", "must be in UTF-8"),
    ]
    with pytest.raises(InvalidField):
        structure_query(Query, {"page": "1"}, {"page": "is given twice"})


def test_names_are_trimmed() -> None:
    """Blanks around names of people, places and services are left out, those within stay."""
    given = {
        "first_name": " Mary Ann ",
        "location_city": "\u00a0Bath ",
        "service_types": [" Piper", "Drummer "],
        "tagline": " as written ",
    }
    row = structure(ImportedCompanion, {**ROW, **given})
    assert (row.first_name, row.location_city) == ("Mary Ann", "Bath")
    assert row.service_types == ("Piper", "Drummer")
    assert row.tagline == " as written "
    with pytest.raises(InvalidField):
        structure(ImportedCompanion, {**ROW, "service_types": ["Piper", "piper "]})
