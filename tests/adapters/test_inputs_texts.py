"""The characters that a text may contain, by kind, for every code point."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator
from typing import Annotated, Any, get_args

import pytest
from attrs import fields, frozen, has, resolve_types
from hypothesis import example, given, strategies as st

from staffbooking_adapters.inputs import structure, structure_query
from staffbooking_core import inputs
from staffbooking_core.bounds import AllowedCharacters, TextBounds
from staffbooking_core.errors import InvalidField
from staffbooking_core.inputs import (
    ImportedCompanion,
    RequestBookingFor,
    RespondToReview,
    SubmitReview,
)
from staffbooking_http.api.query_string import SearchCompanions
from tests.adapters.test_inputs import REQUEST, ROW

ANY = 2_000_000


@frozen(kw_only=True)
class Said:
    line: Annotated[str, TextBounds(ANY, 0, characters=AllowedCharacters.LINE)] = ""
    lines: Annotated[str, TextBounds(ANY, 0, characters=AllowedCharacters.LINES)] = ""
    chat: Annotated[str, TextBounds(ANY, 0, characters=AllowedCharacters.CHAT)] = ""
    opaque: Annotated[str, TextBounds(ANY, 0, characters=AllowedCharacters.OPAQUE)] = ""


KINDS = [characters.value for characters in AllowedCharacters]
CONTROLS = {"line": 65 + 2 + 9, "lines": 65 - 2 + 9, "chat": 65 - 2 + 2, "opaque": 1}
"""The number of refused characters by kind, without surrogates."""
OVERRIDES = set("\u202d\u202e")
BIDI = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}


def refused_in(kind: str) -> set[str]:
    """The code points that a kind of text refuses, by Unicode's categories."""
    return {char for char in map(chr, range(sys.maxunicode + 1)) if _is_refused(char, kind)}


def _is_refused(char: str, kind: str) -> bool:
    category = unicodedata.category(char)
    if category == "Cs" or char == "\0":
        return True
    if kind == "opaque":
        return False
    if kind == "line" and category in ("Zl", "Zp"):
        return True
    if category == "Cc":
        return kind == "line" or char not in "\n\t"
    return char in OVERRIDES if kind == "chat" else unicodedata.bidirectional(char) in BIDI


def error_of(kind: str, text: str) -> str | None:
    """The error message for a text, or None."""
    try:
        made = structure(Said, {kind: text})
    except InvalidField as error:
        (fault,) = error.field_errors
        assert fault.field == kind
        return fault.message
    assert getattr(made, kind) == text
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_every_other_character_is_accepted(kind: str) -> None:
    """All other code points are kept unchanged, also unassigned ones and noncharacters, in one text
    of all and in one of ASCII."""
    refused = refused_in(kind)
    fine = [char for char in map(chr, range(sys.maxunicode + 1)) if char not in refused]
    assert error_of(kind, "".join(fine)) is None
    assert error_of(kind, "".join(char for char in fine if char < "\x80")) is None


@pytest.mark.parametrize("kind", KINDS)
def test_every_refused_character_is_reported(kind: str) -> None:
    """A refused character is reported at any position, in ASCII and other texts."""
    refused = refused_in(kind)
    assert len(refused) == 2048 + CONTROLS[kind]
    for char in refused:
        for text in (char, f"a{char}", f"{char}a\N{GRINNING FACE}", f"é{char}\u200d"):
            assert error_of(kind, text) == f"must not hold the character U+{ord(char):04X}"


@pytest.mark.parametrize("kind", ["lines", "chat"])
def test_a_carriage_return_must_precede_a_line_feed(kind: str) -> None:
    """A carriage return is allowed only before a line feed, as browsers send line breaks."""
    assert error_of(kind, "a\r\nb\r\n\r\n\tc\nd\n") is None
    assert error_of(kind, "\N{GRINNING FACE}\r\n") is None
    for text in ("a\rb", "a\r", "\r\r\n", "\n\r", "é\r"):
        assert error_of(kind, text) == "must not hold the character U+000D"


@pytest.mark.parametrize(
    "text",
    [
        "\N{MAN}\u200d\N{WOMAN}\u200d\N{GIRL}\ufe0f",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u05e9\u05dc\u05d5\u05dd\u200f! \u200e(1)\u061c",
        "Åsa O\u2019Brien-Łukasz \N{NO-BREAK SPACE}\u2003\u00ad\ufeff",
    ],
)
def test_characters_of_many_languages_are_accepted(text: str) -> None:
    """Joiners in emoji and Persian, direction marks and any blank are allowed on a line."""
    for kind in KINDS:
        assert error_of(kind, text) is None


@given(st.sampled_from(KINDS), st.text(st.characters(exclude_categories=())))
@example("lines", "\r\n\r")
@example("chat", "\u2028\u202c")
def test_a_text_is_refused_for_one_character(kind: str, text: str) -> None:
    """A text is refused exactly if it contains a refused character, and the first one is named."""
    normalized = text if kind in ("line", "opaque") else text.replace("\r\n", "\n")
    wrong = next((char for char in normalized if _is_refused(char, kind)), None)
    message = wrong and f"must not hold the character U+{ord(wrong):04X}"
    assert error_of(kind, text) == message


# The inputs -----------------------------------------------------------------------------


def named(cls: type, given: dict[str, Any]) -> set[str]:
    with pytest.raises(InvalidField) as caught:
        structure(cls, given)
    return {fault.field for fault in caught.value.field_errors}


def test_names_have_one_line() -> None:
    """Control characters are reported for each field; a postal address may have several lines."""
    wrong = {"service_type": "Gala\ndinner", "location": "Rua\x07Augusta", "event_ref": "\x9b1"}
    assert named(RequestBookingFor, {**REQUEST, **wrong}) == set(wrong)
    address = "Rua Augusta 1\nLisboa"
    given = structure(RequestBookingFor, {**REQUEST, "location": address})
    assert given.location == address


def test_a_review_may_have_paragraphs() -> None:
    """A review may have line breaks but no control or bidi override characters."""
    text = "Great.\r\n\r\n\tTwice.\n"
    assert structure(SubmitReview, {"rating": 4, "comment": text}).comment == text
    for char in "\x1b\x07\x7f\x9b\u202e\u2067\u2069":
        assert named(SubmitReview, {"rating": 4, "comment": f"a{char}"}) == {"comment"}
        assert named(RespondToReview, {"response": f"a{char}"}) == {"response"}


def test_rows_of_an_import_are_checked_alike() -> None:
    """Rows of an import are checked the same way, also within lists."""
    assert structure(ImportedCompanion, {**ROW, "bio": "One\nTwo"}).bio == "One\nTwo"
    wrong = {
        "tagline": "One\nTwo",
        "bio": "\u202eowT",
        "location_city": "Lisbon\x85",
        "languages": ["English", "Portu\u2066guese"],
    }
    assert named(ImportedCompanion, {**ROW, **wrong}) == {*wrong, "languages.1"} - {"languages"}


def test_texts_of_a_query_have_one_line() -> None:
    """Tabs and bidi characters are refused in the texts of a query."""
    with pytest.raises(InvalidField) as caught:
        structure_query(SearchCompanions, {"location": "Lis\tbon", "service": "\u2069"}, {})
    assert [fault.field for fault in caught.value.field_errors] == ["location", "service"]


def test_a_password_may_have_control_characters() -> None:
    """A password may contain control characters, since it is hashed and never displayed."""
    password = "long enough\x1b\u202e\n"
    given = {"email": "a\x1b", "password": password}
    assert structure(inputs.Login, given).password == password
    assert structure(ImportedCompanion, {**ROW, "password": password}).password == password
    assert named(inputs.Login, {"email": "a", "password": "a\0"}) == {"password"}


def bounds_of(kind: Any) -> Iterator[TextBounds]:
    """The text bounds in a field's type."""
    if isinstance(kind, TextBounds):
        yield kind
    for part in (*get_args(kind), *getattr(kind, "__metadata__", ())):
        yield from bounds_of(part)


def test_only_long_texts_have_paragraphs() -> None:
    """Texts over 300 characters without a form allow line breaks; of shorter ones only addresses
    and reasons do."""
    classes = [cls for cls in vars(inputs).values() if isinstance(cls, type) and has(cls)]
    found = {
        (cls.__name__, field.name): bound
        for cls in classes
        for field in fields(resolve_types(cls))
        for bound in bounds_of(field.type)
        if bound.form is None and bound.characters is not AllowedCharacters.OPAQUE
    }
    assert len(found) > 20
    for name, bound in found.items():
        is_short = bound.max <= 300 and name[1] not in ("location", "reason")
        assert (bound.characters is AllowedCharacters.LINE) is is_short, name


SHOWN = {
    inputs.Register: {"email", "first_name", "last_name"},
    inputs.CreateApiKey: {"name"},
    inputs.CancelBooking: {"reason"},
    inputs.DisputeBooking: {"reason"},
    inputs.SendMessage: {"content"},
    inputs.SendToConversation: {"content"},
    inputs.CreateWebhook: {"url", "description"},
    inputs.ChangeWebhook: {"description"},
}


@pytest.mark.parametrize("cls", SHOWN)
def test_displayed_texts_allow_no_bidi_override(cls: type) -> None:
    """No displayed text of any input allows bidi overrides."""
    given = {field.name: "\u202e@b.example" for field in fields(cls)}
    assert SHOWN[cls] <= named(cls, given)
    for name in SHOWN[cls]:
        with pytest.raises(InvalidField) as caught:
            structure(cls, given)
        messages = {fault.field: fault.message for fault in caught.value.field_errors}
        assert messages[name] == "must not hold the character U+202E"


UNSEEN = "\u200b\u2060\u00ad\u3164\u2800\u034f\u115f\u1160\uffa0\u200d\ue000\u3000\u17b4"
SELECTORS = "".join(map(chr, range(0xFE00, 0xFE10))) + "\u180b\u180f\U000e0100\U000e01ef"


@pytest.mark.parametrize(
    "text", ["", "  ", " " * 2001, "\u00a0", *UNSEEN, UNSEEN, *SELECTORS, SELECTORS]
)
def test_an_invisible_text_is_blank(text: str) -> None:
    """Nothing, blanks, invisible characters, fillers and variation selectors alone are refused as
    blank, whatever their length."""
    with pytest.raises(InvalidField, match="must not be blank"):
        structure(RespondToReview, {"response": text})


@pytest.mark.parametrize(
    "text", [".", " é", "\u200b\u3164x", "\u2801", "\U0001fae8", "ㅤ한", "\u2764\ufe0f"]
)
def test_a_text_with_one_visible_character_is_accepted(text: str) -> None:
    """A text with one visible character is accepted, also with an emoji newer than Python's Unicode
    tables."""
    assert structure(RespondToReview, {"response": text}).response == text
