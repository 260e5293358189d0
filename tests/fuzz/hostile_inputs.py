"""Hostile values for fields, bodies, queries and paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

ALWAYS_INVALID_VALUES = ("a\0b", "a\ud800b")
"""Values that no field accepts, of any type."""

ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**63,
    10**400,
    0.5,
    1e-300,
    "",
    " \u200b",
    "x" * 101,
    "x" * 5001,
    "\U0001f600" * 300,
    "a\u202eb",
    "\x1b[31m",
    "a\r\nSet-Cookie: x=1",
    "%_\\'\";--",
    "\u0130\ufb03\u1e9e",
    "e" + "\u0301" * 90,
    "0001-01-01",
    "9999-12-31",
    "2028-02-29",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z",
    "2016-12-31T23:59:60Z",
    "2027-03-28T01:30",
    "01:30",
    "24:00",
    "../../etc/passwd",
    "media/none.jpg",
    "https://\u0660.example/",
    "https://example.com:0/",
    "A@EXAMPLE.COM",
    [],
    {},
    [[]],
    [None],
    ["a", "A"],
    ["a\0b", 1, {}],
    [f"n{number}" for number in range(51)],
    {"a": {"b": [1]}},
)
"""Values that some fields accept."""

INVALID_JSON_BODIES = (
    b"\0",
    b"{",
    b"[]",
    b"null",
    b"{}{}",
    b'{"a":NaN}',
    b'{"a":-Infinity}',
    b'{"a":"\xff"}',
    b'{"a":"\xed\xa0\x80"}',
    b'{"a":"\n"}',
    b'{"a":1,"a":2}',
    b'{"a":1e99999999999999999999}',
    b'{"a":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    b'{"a":' * 10_000,
)

INVALID_QUERY_VALUES = ("%00", "a%00b", "%ff", "%ED%A0%80")
"""Values that no query parameter accepts."""

ODD_QUERY_VALUES = (
    *("", "+", "%", "%zz", "0", "-1", "01", "1.0", "1e3", "NaN", "-Infinity", "1_0", "%D9%A1"),
    *("9" * 40, str(2**63 - 1), str(2**63), "100000", "50", "0.001", "999999999.99"),
    *("0001-01-01", "9999-12-31", "2028-02-29", "2027-02-29", "2027-03-28"),
    *("%1b", "%0a", "%E2%80%AE", "%25_%5C", "%27%3B--", "%C4%B0%EF%AC%83", "x" * 101, "x" * 5000),
)

INVALID_PATH_SEGMENTS = (
    *("0", "01", "-1", "1.0", "%2B1", "%D9%A1", "%C2%B9", "1%0A", "9" * 400, str(2**63)),
    *(
        "%00",
        "1%00",
        "%ff",
        "%ED%A0%80",
        "%20",
        "%1b",
        "%",
        "%zz",
        "%25",
        "%E2%80%AE",
        "%F0%9F%98%80",
    ),
    *("null", "..%5C", "'", "BK00000000000%00", "a%00.jpg", "a" * 4000),
)
"""Path segments that name no existing object."""


def sample_values(values: Sequence[T], number: int, *of: object) -> Iterator[T]:
    """A sample of the values, always the same for the same `of`."""
    yield from Random(repr(of)).sample(values, number)
