"""`staffbooking companions import`: formats, fields and batches."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from staffbooking_cli import bulk
from staffbooking_cli.importing import ImportFileRow
from staffbooking_core.usecases.accounts import administration
from staffbooking_core.usecases.companions import approvals
from tests.cli.deployment import CliDeployment
from tests.cli.import_files import FORMATS, MIA, as_csv, as_lines, imported, person


@pytest.mark.parametrize("ending", FORMATS)
def test_all_fields_go_in(deployment: CliDeployment, tmp_path: Path, ending: str) -> None:
    """Each format imports every field of a companion."""
    path = tmp_path / f"companions.{ending}"
    path.write_text(FORMATS[ending]([MIA]), encoding="utf-8")
    assert imported(deployment, path) == {"imported": 1, "updated": 0, "skipped": []}
    found = deployment.run_json("companions", "list")["companions"][0]
    assert found["hourly_rate"] == 45.5
    assert (found["status"], found["tier"], found["badges"]) == (
        "approved",
        "premium",
        ["verified"],
    )
    assert (found["bio"], found["tagline"]) == (MIA["bio"], MIA["tagline"])
    stored = deployment.run_on_ports(lambda ports: approvals.list_companions(ports))[0]
    assert stored.service_types == ("Gala dinner", "Trade fair")
    assert (len(stored.calendar.weekly), len(stored.calendar.overrides)) == (1, 1)


@pytest.mark.parametrize("form", FORMATS.values(), ids=list(FORMATS))
def test_the_format_is_detected_by_the_content(
    deployment: CliDeployment, file: Path, form: Any
) -> None:
    """A file without an extension is read by its content; a byte order mark is allowed."""
    file.write_text("\ufeff" + form([person(1), person(2)]), encoding="utf-8")
    assert imported(deployment, file) == {"imported": 2, "updated": 0, "skipped": []}


def test_an_import_again_updates(deployment: CliDeployment, file: Path) -> None:
    """A companion known by e-mail, in any letter case, is updated and keeps its id."""
    file.write_text(as_lines([MIA]), encoding="utf-8")
    imported(deployment, file)
    file.write_text(as_lines([{**MIA, "email": "MIA@example.com", "hourly_rate": 60}]))
    assert imported(deployment, file) == {"imported": 0, "updated": 1, "skipped": []}
    companions = deployment.run_json("companions", "list")["companions"]
    assert [(one["id"], one["hourly_rate"]) for one in companions] == [(1, 60)]


def test_the_later_of_two_rows_counts(deployment: CliDeployment, file: Path) -> None:
    """An e-mail that occurs twice in one file is imported, then updated."""
    file.write_text(as_lines([person(1), person(2), person(1, hourly_rate=70)]))
    assert imported(deployment, file) == {"imported": 2, "updated": 1, "skipped": []}
    assert deployment.run_json("companions", "list")["companions"][0]["hourly_rate"] == 70


def test_a_file_larger_than_a_batch_goes_in(deployment: CliDeployment, file: Path) -> None:
    """All rows of several batches are imported."""
    count = 2 * bulk.IMPORT_BATCH_SIZE + 1
    file.write_text(as_lines([person(number) for number in range(count)]))
    assert imported(deployment, file)["imported"] == count


def test_a_password_is_hashed_and_kept(deployment: CliDeployment, file: Path) -> None:
    """A given password is hashed; a later import without one keeps it."""
    file.write_text(as_lines([person(1, password="long enough"), person(2)]))
    imported(deployment, file)
    file.write_text(as_lines([person(1)]))
    imported(deployment, file)
    users = deployment.run_on_ports(lambda ports: administration.list_users(ports))
    assert [user.password_hash for user in users] == ["plain:long enough", None]


def test_photos_as_they_are_published_go_in(deployment: CliDeployment, file: Path) -> None:
    """Photo paths of uploads and of other systems are imported unchanged."""
    photos = ["photos/123.jpg", "mia.jpg", "media/Vv1-Q_x.webp", "fotos/Zoë und Mia.png", ""]
    rows = [person(number, profile_photo=photo) for number, photo in enumerate(photos)]
    file.write_text(as_lines(rows), encoding="utf-8")
    assert imported(deployment, file)["imported"] == len(photos)
    companions = deployment.run_json("companions", "list")["companions"]
    assert [one["profile_photo"] for one in companions] == photos


def test_a_null_keeps_the_stored_value(deployment: CliDeployment, file: Path) -> None:
    """A null keeps the stored value, as an empty cell does."""
    file.write_text(as_lines([MIA]), encoding="utf-8")
    imported(deployment, file)
    silent = {"daily_rate": None, "bio": None, "badges": None, "weekly": None, "approved": None}
    file.write_text(as_lines([{**MIA, **silent, "first_name": "Maria"}]), encoding="utf-8")
    before = deployment.run_json("companions", "list")["companions"]
    assert imported(deployment, file)["updated"] == 1
    after = deployment.run_json("companions", "list")["companions"]
    assert after == [{**before[0], "first_name": "Maria"}]


def test_a_batch_is_full_of_rows_or_of_hours() -> None:
    """A batch ends at the limit of rows or of hour entries; each row is in exactly one batch."""
    free = {"date": "2027-03-01", "slots": []}
    day = {**free, "slots": [{"start": "09:00", "end": "10:00"}] * 49}
    slot = {"weekday": 0, "start": "09:00", "end": "10:00"}
    days = [{**day, "date": f"2027-03-{number:02}"} for number in range(1, 32)]
    # 31 days with 49 slots each are 31 * 50 = 1,550 entries: a fourth row would exceed the limit.
    heavy = [person(number, overrides=days) for number in range(9)]
    light = [person(number, weekly=[slot] * 4) for number in range(1_100)]
    plain = [person(number) for number in range(2_001)]
    assert sizes(heavy) == [3, 3, 3]
    assert sizes(light) == [1_000, 100]
    assert sizes(plain) == [1_000, 1_000, 1]
    assert sizes([person(1, weekly=[slot] * 100)] * 101) == [50, 50, 1]


def test_a_row_of_very_many_hours_comes_alone() -> None:
    """A row above the limit of hour entries gets a batch of its own."""
    start = date(2027, 1, 1)
    slots = [{"start": "09:00", "end": "10:00"}] * 50
    days = [{"date": f"{start + timedelta(number)}", "slots": slots} for number in range(300)]
    few, many = [person(number) for number in range(10)], person(10, overrides=days)
    assert sizes([*few, many, *few]) == [10, 1, 10]
    assert sizes([many, many, *few]) == [1, 1, 10]


def sizes(people: list[dict[str, Any]]) -> list[int]:
    """The sizes of the batches of these rows."""
    given = [{**one, "hourly_rate": 50} for one in people]
    rows = (bulk.to_import_row(ImportFileRow(line, one)) for line, one in enumerate(given, 1))
    return [len(batch) for batch in bulk.split_batches(rows)]


def test_unknown_fields_are_ignored(deployment: CliDeployment, tmp_path: Path) -> None:
    """A column or member with an unknown name is ignored, and named in a note."""
    path = tmp_path / "companions.csv"
    path.write_text(as_csv([person(1, rating_sum=500, id=99)]))
    result = deployment.run_command("companions", "import", path)
    assert (result.exit_code, result.stderr) == (
        0,
        "staffbooking: ignored, since no such fields exist: 'id', 'rating_sum'\n",
    )
    [found] = deployment.run_json("companions", "list")["companions"]
    assert (found["id"], found["rating_avg"]) == (1, 0)


def test_a_misspelt_field_is_named_in_one_line(deployment: CliDeployment, tmp_path: Path) -> None:
    """A note of unknown members shows each once, shortened and made printable."""
    path = tmp_path / "companions.jsonl"
    path.write_text(as_lines([person(n, langauges=["en"], **{"x\n" * 50: 1}) for n in range(2)]))
    result = deployment.run_command("companions", "import", path)
    assert result.stderr.count("\n") == 1
    assert result.stderr.count("langauges") == 1
    assert len(result.stderr) < 150


def test_a_companion_is_pending_by_default(deployment: CliDeployment, file: Path) -> None:
    """An imported companion is pending unless its row says that it is approved."""
    file.write_text(as_lines([person(1)]))
    imported(deployment, file)
    assert deployment.run_json("companions", "list", "--status", "pending")["companions"]
    assert not deployment.run_json("companions", "list", "--status", "approved")["companions"]
