"""Inputs of changes: absent fields are kept, null clears fields that may be empty."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from attrs import asdict, frozen

from staffbooking_adapters.inputs import structure
from staffbooking_core.errors import InvalidField, MissingField
from staffbooking_core.inputs import ChangeProfile, Name, Rate, Unset


@frozen(kw_only=True)
class Change:
    required: Name
    kept: Name | Unset = Unset.UNSET
    emptied: Rate | Unset | None = Unset.UNSET
    optional: Name | None = None


def said(given: dict[str, Any]) -> dict[str, Any]:
    """The provided fields of a change."""
    made = asdict(structure(Change, {"required": "x", **given}))
    return {name: value for name, value in made.items() if value is not Unset.UNSET}


@pytest.mark.parametrize(
    "given, expected",
    [
        ({}, {}),
        ({"kept": "a", "emptied": 4}, {"kept": "a", "emptied": Decimal(4)}),
        ({"kept": None}, {}),
        ({"emptied": None}, {"emptied": None}),
        ({"optional": None}, {}),
        ({"optional": "b"}, {"optional": "b"}),
    ],
)
def test_what_is_left_out_stays_and_null_empties(given: Any, expected: Any) -> None:
    """Null is a value if the field may be empty, and an absence otherwise."""
    assert said(given) == {"required": "x", "optional": None, **expected}


@pytest.mark.parametrize("given", [{"kept": ""}, {"kept": 1}, {"emptied": 0}, {"emptied": "as is"}])
def test_bounds_hold_for_what_is_said(given: dict[str, Any]) -> None:
    """An invalid value is an error of its field."""
    with pytest.raises(InvalidField) as caught:
        said(given)
    assert [fault.field for fault in caught.value.field_errors] == list(given)


def test_a_required_field_is_as_ever() -> None:
    """Null counts as absent for a required field."""
    with pytest.raises(MissingField):
        structure(Change, {"required": None})


def test_of_a_profile_nothing_is_required() -> None:
    """An empty change is valid."""
    assert set(asdict(structure(ChangeProfile, {})).values()) == {Unset.UNSET}
