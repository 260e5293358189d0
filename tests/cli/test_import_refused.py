"""Files and rows that `staffbooking companions import` refuses, and how it reports them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from staffbooking_adapters.testing.builders import add_user
from tests.cli.deployment import CliDeployment
from tests.cli.import_files import FORMATS, MIA, as_csv, as_lines, imported, person, skipped

BAD = {
    "missing": ({"timezone": None}, "timezone: is required"),
    "rate": ({"hourly_rate": "dear"}, "hourly_rate: must be a number"),
    "cents": ({"hourly_rate": 45.555}, "hourly_rate: has more than 2 decimals"),
    "zone": ({"timezone": "Lisbon"}, "timezone: must be the IANA name of a timezone"),
    "tier": ({"tier": "gold"}, "tier: must be one of standard, premium, elite"),
    "list": ({"service_types": []}, "service_types: "),
    "comma": (
        {"service_types": ["Hosting", "Wine, cheese"]},
        "service_types.1: must not contain a comma",
    ),
    "photo": (
        {"profile_photo": "https://elsewhere.example/mia.jpg"},
        "profile_photo: must be a relative path such as photos/me.jpg",
    ),
    "badge": ({"badges": ["famous"]}, "badges.0: must be one of"),
    "flag": ({"approved": "perhaps"}, "approved: must be true or false"),
    "weekly": ({"weekly": "mornings"}, "weekly: must be a list"),
    "backwards": (
        {"weekly": [{"weekday": 1, "start": "12:00", "end": "11:00"}]},
        "weekly.0.start: must be before end",
    ),
    "nul": ({"tagline": "a\0b"}, "tagline: must not hold the character U+0000"),
    "two": (
        {"timezone": "X", "tier": "gold"},
        "timezone: must be the IANA name of a timezone; tier:",
    ),
}


@pytest.mark.parametrize(
    ("ending", "lines"), [("csv", (2, 3)), ("json", (1, 2)), ("jsonl", (1, 2))]
)
@pytest.mark.parametrize(("wrong", "reason"), BAD.values(), ids=list(BAD))
def test_a_bad_row_is_named(
    deployment: CliDeployment,
    tmp_path: Path,
    ending: str,
    lines: tuple[int, int],
    wrong: dict[str, Any],
    reason: str,
) -> None:
    """An invalid row is reported with its line, e-mail and reason; the others are imported."""
    path = tmp_path / f"companions.{ending}"
    bad = {name: value for name, value in person(1, **wrong).items() if value is not None}
    path.write_text(FORMATS[ending]([bad, person(2)]), encoding="utf-8")
    document = imported(deployment, path)
    assert document["imported"] == 1
    [found] = document["skipped"]
    assert (found["line"], found["email"]) == (lines[0], "mia1@example.com")
    assert found["reason"].startswith(reason)


@pytest.mark.parametrize(
    "photo",
    [
        "/photos/mia.jpg",
        "//elsewhere.example/mia.jpg",
        "javascript:alert(1)",
        "photos/../../mia.jpg",
        "photos\\mia.jpg",
        "photos/mia.jpg\r\nX: 1",
        "photos/mia.jpg?size=1",
        "p/" * 150 + "mia.jpg",
    ],
)
def test_a_photo_is_a_relative_path(deployment: CliDeployment, file: Path, photo: str) -> None:
    """A row with a photo that is not a relative path is skipped, as in a profile."""
    file.write_text(as_lines([person(1, profile_photo=photo), person(2, profile_photo="")]))
    document = imported(deployment, file)
    assert document["imported"] == 1
    assert document["skipped"][0]["reason"].startswith("profile_photo: ")


def test_the_email_of_a_customer_is_refused(deployment: CliDeployment, file: Path) -> None:
    """The e-mail of a customer is refused, and the rest of its batch is imported."""
    deployment.run_on_ports(lambda ports: add_user(ports.store, email="mia2@example.com"))
    file.write_text(as_lines([person(1), person(2), person(3)]))
    document = imported(deployment, file)
    assert (document["imported"], len(document["skipped"])) == (2, 1)
    assert (document["skipped"][0]["line"]) == 2


def test_lines_are_counted_as_an_editor_does(deployment: CliDeployment, tmp_path: Path) -> None:
    """CSV records may span lines, and blank lines are skipped but counted."""
    path = tmp_path / "companions.csv"
    rows = [MIA, {**MIA, "email": "two@example.com"}, {**MIA, "email": "bad"}]
    text = as_csv(rows).splitlines(keepends=True)
    path.write_text("".join([*text[:3], "\r\n", *text[3:]]), encoding="utf-8", newline="")
    assert skipped(deployment, path) == [(7, "bad", "email: must be an e-mail address")]


def test_a_broken_line_of_json_is_named(deployment: CliDeployment, tmp_path: Path) -> None:
    """A line that is not JSON, not an object, or has a duplicate field is skipped alone."""
    path = tmp_path / "companions.jsonl"
    deep = '{"email": ' + "[" * 100_000
    broken = [
        "{oops",
        "[1]",
        '{"email": 1, "email": 2}',
        deep,
        '{"hourly_rate": 1e9999999999999999999}',
        "\ufeff{}",
    ]
    path.write_text("\n".join([*broken, "", json.dumps(person(1))]), encoding="utf-8")
    document = imported(deployment, path)
    assert document["imported"] == 1
    found = [(one["line"], one["reason"].partition(" at ")[0]) for one in document["skipped"]]
    assert found == [
        (1, "is not JSON: Expecting property name enclosed in double quotes"),
        (2, "is not an object"),
        (3, "has a field twice"),
        (4, "is nested too deeply"),
        (5, "has a number that is too long"),
        (6, "is not JSON: begins with a byte order mark (U+FEFF)"),
    ]


def test_an_element_that_is_no_object_is_named(deployment: CliDeployment, file: Path) -> None:
    """In a JSON array the reported line is the element's number."""
    file.write_text(json.dumps([person(1), 7, person(2, hourly_rate=float("nan"))]))
    assert skipped(deployment, file) == [
        (2, None, "is not an object"),
        (3, "mia2@example.com", "hourly_rate: must be a number"),
    ]


def test_a_surrogate_is_named(deployment: CliDeployment, file: Path) -> None:
    """A lone surrogate is refused, and the report shows a replacement character for it."""
    file.write_text(json.dumps([person(1, email="\ud800@example.com")]))
    [(line, email, _)] = skipped(deployment, file)
    assert (line, email) == (1, "?@example.com")


def test_a_record_of_other_length_is_named(deployment: CliDeployment, tmp_path: Path) -> None:
    """A record with too many or too few cells is refused."""
    path = tmp_path / "companions.csv"
    header, row = as_csv([person(1)]).splitlines()
    path.write_text(f"{header}\n{row},more\n{row.rpartition(',')[0]}\n{row}\n")
    found = skipped(deployment, path)
    assert [(line, reason) for line, _, reason in found] == [
        (2, "has 9 cells, the first line names 8"),
        (3, "has 7 cells, the first line names 8"),
    ]


def test_an_unclosed_quote_is_named(deployment: CliDeployment, tmp_path: Path) -> None:
    """An unclosed quote is reported at the record in which it begins."""
    path = tmp_path / "companions.csv"
    header, row = as_csv([person(1)]).splitlines()
    path.write_text(f'{header}\n{row}\n"{row}\n')
    found = skipped(deployment, path)
    assert found == [(3, None, "is not CSV: unexpected end of data")]


def test_the_lines_of_an_unclosed_quote_are_reported(
    deployment: CliDeployment, tmp_path: Path
) -> None:
    """The report names the lines that a quote spans, up to the next quote or the end of the
    file."""
    path = tmp_path / "companions.csv"
    header, *rows = as_csv([person(number) for number in range(1, 6)]).splitlines()
    path.write_text("\n".join([header, rows[0], f'"{rows[1]}', rows[2], rows[3], rows[4], ""]))
    found = skipped(deployment, path)
    assert found == [
        (3, None, "is not CSV: unexpected end of data; lines 3 to 6 were read as one row")
    ]
    path.write_text("\n".join([header, f'"{rows[1]}', f'"{rows[2]}', rows[3], ""]))
    [(line, _, reason)] = skipped(deployment, path)
    assert (line, reason.partition("; ")[2]) == (2, "lines 2 to 3 were read as one row")


WHOLE = {
    "latin": ("companions.csv", "Zoë".encode("latin-1"), "is not UTF-8 text (line 1)"),
    "utf-16": ("companions.json", "[]".encode("utf-16"), "is not UTF-8 text (line 1)"),
    "cut": ("companions.jsonl", "{}\n\nZoë".encode()[:-1], "is not UTF-8 text (line 3)"),
    "empty": ("companions.csv", b"", "is empty"),
    "binary": ("companions", bytes(range(256)), "is not UTF-8 text (line 2)"),
    "columns": (
        "companions.csv",
        b"email,first_name,last_name\n",
        "the first line must name the columns; it lacks hourly_rate, location_city, "
        "location_country, timezone, service_types",
    ),
    "array": ("companions.json", b"[{}, ", "is not JSON: Expecting value at character 6"),
}


@pytest.mark.parametrize(("name", "content", "reason"), WHOLE.values(), ids=list(WHOLE))
def test_a_file_of_no_known_form_is_refused(
    deployment: CliDeployment, tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    """A file in none of the formats gives one error line, and nothing is imported."""
    path = tmp_path / name
    path.write_bytes(content)
    assert deployment.run_refused("companions", "import", path) == f"staffbooking: {path}: {reason}"


def test_a_missing_file_is_refused(deployment: CliDeployment, tmp_path: Path) -> None:
    """A missing path or a folder gives one error line."""
    missing = tmp_path / "missing.csv"
    line = deployment.run_refused("companions", "import", missing)
    assert line == f"staffbooking: {missing}: No such file or directory"
    line = deployment.run_refused("companions", "import", tmp_path)
    assert line == f"staffbooking: {tmp_path}: is not a file"


def test_a_table_lists_the_skipped_rows(deployment: CliDeployment, file: Path) -> None:
    """The table lists each skipped row and the counts; standard error has one line."""
    file.write_text(as_lines([person(1), person(2, tier="gold")]))
    result = deployment.run_command("companions", "import", file)
    assert result.exit_code == 1
    assert "mia2@example.com" in result.stdout
    assert "tier: must be one of" in result.stdout
    assert result.stderr == "staffbooking: 1 of 2 rows were skipped\n"
