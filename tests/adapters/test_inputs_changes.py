"""Inputs of changes: absent fields are kept, null clears fields that may be empty."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from attrs import asdict, frozen

from staffbooking_adapters.inputs import structure
from staffbooking_core.bounds import Unset
from staffbooking_core.errors import InvalidField, MissingField
from staffbooking_core.inputs import ChangeProfile, Name, Rate


@frozen(kw_only=True)
class Change:
    required: Name
    kept: Name | Unset = Unset.UNSET
    emptied: Rate | Unset | None = Unset.UNSET
    optional: Name | None = None


def provided(given: dict[str, Any]) -> dict[str, Any]:
    """The fields that a change sets."""
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
def test_absent_fields_are_kept_and_null_clears(given: Any, expected: Any) -> None:
    """Null is a value if the field may be empty, and an absence otherwise."""
    assert provided(given) == {"required": "x", "optional": None, **expected}


@pytest.mark.parametrize("given", [{"kept": ""}, {"kept": 1}, {"emptied": 0}, {"emptied": "as is"}])
def test_given_values_are_validated(given: dict[str, Any]) -> None:
    """An invalid value is an error of its field."""
    with pytest.raises(InvalidField) as caught:
        provided(given)
    assert [fault.field for fault in caught.value.field_errors] == list(given)


def test_null_is_absent_for_a_required_field() -> None:
    """Null counts as absent for a required field."""
    with pytest.raises(MissingField):
        structure(Change, {"required": None})


def test_an_empty_profile_change_is_valid() -> None:
    """An empty profile change is valid and has no field set."""
    assert set(asdict(structure(ChangeProfile, {})).values()) == {Unset.UNSET}
