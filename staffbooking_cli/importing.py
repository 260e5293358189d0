"""Reads companion files row by row: CSV, a JSON array, or JSON Lines (CONTRACT 9).

A row is a line of JSON Lines, an element of an array, or a CSV record, which may span lines.
A row that can't be parsed is reported as that row's problem, and reading continues. CSV and
JSON Lines are streamed; a JSON array is held in memory.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import io
import json
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from attrs import NOTHING, fields, frozen

from staffbooking_cli.errors import CommandRefused
from staffbooking_core.inputs import ImportedCompanion

_CHUNK_BYTES = 1 << 16
_MAX_CELL_LENGTH = 1 << 20
_MAX_LINE_LENGTH = 1 << 20
"""Maximum characters of a line of JSON Lines."""
_MAX_UNKNOWN_NAMES = 10
"""Number of unknown names to take from a row, and after which no more are looked for."""

_FIELD_NAMES = [field.name for field in fields(ImportedCompanion)]
_REQUIRED_FIELD_NAMES = [
    field.name for field in fields(ImportedCompanion) if field.default is NOTHING
]


@frozen
class ImportFileRow:
    """One row: its line number in the file, and its data or the reason it can't be parsed."""

    line: int
    data: Mapping[str, Any]
    problem: str | None = None

    @property
    def email(self) -> str | None:
        """The e-mail field shortened and made printable, even if invalid; None if not a string."""
        email = self.data.get("email")
        if not isinstance(email, str):
            return None
        return email[:254].encode(errors="replace").decode().replace("\0", "?")


class ImportFile:
    """A file of rows. Raises CommandRefused if the file as a whole has none of the formats."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._binary: BinaryIO | None = None
        self.unknown_names: set[str] = set()
        """The first names of columns and members read so far that are no fields."""
        if path.exists() and not path.is_file():
            raise CommandRefused(f"{path}: is not a file")
        self.size, self.fingerprint = _check_utf8(path)
        if not self.size:
            raise CommandRefused(f"{path}: is empty")

    @property
    def position(self) -> int:
        """The number of bytes read so far."""
        if self._binary is None:
            return 0
        return self.size if self._binary.closed else self._binary.tell()

    def rows(self, after_line: int = 0) -> Generator[ImportFileRow, None, None]:
        """The rows with a line number above `after_line`. Raises CommandRefused."""
        read = self._choose_reader()
        with self._path.open("rb") as self._binary:
            # The csv module needs untranslated line ends; JSON Lines accept any line end.
            newline = "" if read is _csv_rows else None
            text = io.TextIOWrapper(self._binary, encoding="utf-8-sig", newline=newline)
            try:
                for row in read(text, after_line):
                    if len(self.unknown_names) < _MAX_UNKNOWN_NAMES:
                        unknown = islice(row.data.keys() - _FIELD_NAMES, _MAX_UNKNOWN_NAMES)
                        self.unknown_names.update(unknown)
                    yield row
            except _InvalidFormat as error:
                raise CommandRefused(f"{self._path}: {error}") from None

    def _choose_reader(self) -> Callable[[io.TextIOWrapper, int], Iterator[ImportFileRow]]:
        """The reader for the file's extension, otherwise for its first character."""
        ending = self._path.suffix.lower()
        if ending == ".csv":
            return _csv_rows
        if ending in (".jsonl", ".ndjson"):
            return _json_lines
        with self._path.open(encoding="utf-8-sig") as text:
            first = next((line.lstrip()[0] for line in text if line.strip()), "")
        if first == "[":
            return _json_array
        return _json_lines if first == "{" or ending == ".json" else _csv_rows


class _InvalidFormat(Exception):
    pass


def _check_utf8(path: Path) -> tuple[int, str]:
    """The size of a file in bytes and the SHA-256 digest of its content.

    The whole file is checked before any row is imported. Raises CommandRefused if it is not
    UTF-8.
    """
    decoder, lines, size = codecs.getincrementaldecoder("utf-8")(), 1, 0
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while True:
            chunk = file.read(_CHUNK_BYTES)
            try:
                lines += decoder.decode(chunk, final=not chunk).count("\n")
            except UnicodeDecodeError as error:
                lines += error.object[: error.start].count(b"\n")
                raise CommandRefused(f"{path}: is not UTF-8 text (line {lines})") from None
            digest.update(chunk)
            size += len(chunk)
            if not chunk:
                return size, digest.hexdigest()


# JSON -----------------------------------------------------------------------------------


class _ObjectWithDuplicates(dict[str, Any]):
    """A JSON object with a duplicate field."""


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _ObjectWithDuplicates(found)


# NaN and infinities are kept as text, so that number fields reject them.
_DECODER = json.JSONDecoder(
    parse_float=Decimal, parse_constant=str, object_pairs_hook=_build_object
)


def _parse_json(text: str) -> Any:
    """Parse JSON with exact decimals. Raises ValueError with a short reason."""
    if text.startswith("\ufeff"):  # Left in the middle when files were concatenated.
        raise ValueError("is not JSON: begins with a byte order mark (U+FEFF)")
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except (ArithmeticError, ValueError):
        raise ValueError("has a number that is too long") from None


def _json_row(line: int, element: Any) -> ImportFileRow:
    if not isinstance(element, dict):
        return ImportFileRow(line, {}, "is not an object")
    return ImportFileRow(
        line, element, "has a field twice" if isinstance(element, _ObjectWithDuplicates) else None
    )


def _json_lines(text: io.TextIOWrapper, after: int) -> Iterator[ImportFileRow]:
    for number, line in enumerate(_bounded_lines(text), 1):
        if number <= after or not line.strip():
            continue
        if _is_truncated(line):
            yield ImportFileRow(number, {}, f"is longer than {_MAX_LINE_LENGTH:,} characters")
            continue
        try:
            yield _json_row(number, _parse_json(line))
        except ValueError as error:
            yield ImportFileRow(number, {}, str(error))


def _bounded_lines(text: io.TextIOWrapper) -> Iterator[str]:
    """Each line; a line over the limit is truncated."""
    while line := text.readline(_MAX_LINE_LENGTH + 1):
        rest = line
        while _is_truncated(rest):
            rest = text.readline(_MAX_LINE_LENGTH + 1)
        yield line


def _is_truncated(line: str) -> bool:
    return len(line) > _MAX_LINE_LENGTH and not line.endswith("\n")


def _json_array(text: io.TextIOWrapper, after: int) -> Iterator[ImportFileRow]:
    try:
        elements = _parse_json(text.read())
    except ValueError as error:
        raise _InvalidFormat(str(error)) from None
    for number, element in enumerate(elements, 1):
        if number > after:
            yield _json_row(number, element)


# CSV ------------------------------------------------------------------------------------


def _csv_rows(text: io.TextIOWrapper, after: int) -> Iterator[ImportFileRow]:
    csv.field_size_limit(_MAX_CELL_LENGTH)
    reader = csv.reader(text, strict=True)
    header: list[str] | None = None
    while True:
        # `line_num` counts the lines read so far; the next record begins on the line after.
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            if header is None:
                raise _InvalidFormat(f"is not CSV: {error}") from None
            if line > after:
                yield ImportFileRow(
                    line, {}, f"is not CSV: {error}{_line_range_note(line, reader.line_num)}"
                )
            continue
        if header is None:
            header = _parse_header(cells) if cells else None
        elif cells and line > after:
            yield _csv_row(line, header, cells)


def _line_range_note(first: int, last: int) -> str:
    """A note that an unclosed quote made several lines into one row; empty for one line."""
    return f"; lines {first} to {last} were read as one row" if last > first else ""


def _parse_header(cells: Sequence[str]) -> list[str]:
    names = [cell.strip() for cell in cells]
    if missing := [name for name in _REQUIRED_FIELD_NAMES if name not in names]:
        raise _InvalidFormat(f"the first line must name the columns; it lacks {', '.join(missing)}")
    known = [name for name in names if name in _FIELD_NAMES]
    if len(set(known)) < len(known):
        raise _InvalidFormat("the first line names a column twice")
    return names


def _csv_row(line: int, header: Sequence[str], cells: Sequence[str]) -> ImportFileRow:
    data = {
        name: _CELL_PARSERS.get(name, str)(cell.strip())
        for name, cell in zip(header, cells, strict=False)
        if cell.strip()
    }
    if len(cells) != len(header):
        return ImportFileRow(
            line, data, f"has {len(cells)} cells, the first line names {len(header)}"
        )
    return ImportFileRow(line, data)


# A cell that can't be parsed stays text: the field's validation then reports what it should be.

_NUMBER = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?")
_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _parse_number_cell(cell: str) -> Decimal | str:
    return Decimal(cell) if _NUMBER.fullmatch(cell) else cell


def _parse_list_cell(cell: str) -> list[str]:
    return [part.strip() for part in cell.split(";") if part.strip()]


def _parse_flag_cell(cell: str) -> bool | str:
    return _FLAGS.get(cell.lower(), cell)


def _parse_json_cell(cell: str) -> Any:
    try:
        return _parse_json(cell)
    except ValueError:
        return cell


_CELL_PARSERS: dict[str, Callable[[str], Any]] = {
    "hourly_rate": _parse_number_cell,
    "daily_rate": _parse_number_cell,
    "service_types": _parse_list_cell,
    "languages": _parse_list_cell,
    "badges": _parse_list_cell,
    "weekly": _parse_json_cell,
    "overrides": _parse_json_cell,
    "approved": _parse_flag_cell,
}
