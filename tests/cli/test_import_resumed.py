"""`companions import` of a file whose earlier import was interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import anyio
import pytest

from staffbooking_adapters.settings import load_settings
from staffbooking_adapters.wiring import open_ports
from staffbooking_cli import bulk, render
from staffbooking_cli.importing import ImportFile
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.accounts import administration
from staffbooking_core.usecases.companions import imports
from tests.cli.deployment import CliDeployment
from tests.cli.import_files import as_csv, as_lines, person, skipped
from tests.cli.processes import make_environment, run_in_background
from tests.cli.test_stores import deployment_on

ROWS = [person(1), person(2, tier="gold"), person(3), person(4), person(5, tier="silver")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "companions.jsonl"
    path.write_text(as_lines(ROWS))
    return path


def cut_short(deployment: CliDeployment, path: Path, rows: int) -> None:
    """Import the first rows of a file, as a process that is killed afterwards."""

    async def work(ports: Ports) -> None:
        file = ImportFile(path)
        begun = await imports.begin_import(ports, file.fingerprint)
        with closing(file.rows()) as parsed:
            batch = [bulk.to_import_row(row) for row in islice(parsed, rows)]
        await imports.import_rows(ports, begun, batch)

    deployment.run_on_ports(work)


def emails(deployment: CliDeployment) -> list[str]:
    return [
        user.email
        for user in deployment.run_on_ports(lambda ports: administration.list_users(ports))
    ]


@pytest.mark.parametrize("form", [as_lines, as_csv], ids=["jsonl", "csv"])
def test_an_import_resumes_after_the_last_batch(
    deployment: CliDeployment, tmp_path: Path, form: Any
) -> None:
    """The import resumes with a note; the result covers the whole file, with every skipped row."""
    path = tmp_path / "companions"
    path.write_text(form(ROWS))
    cut_short(deployment, path, 3)
    result = deployment.run_command("companions", "import", path, "--json")
    first = 1 if form is as_lines else 2
    assert result.stderr.startswith(f"staffbooking: resuming after line {first + 2}, as of 20")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert (document["imported"], document["updated"]) == (3, 0)
    assert [one["line"] for one in document["skipped"]] == [first + 1, first + 4]
    assert emails(deployment) == [f"mia{number}@example.com" for number in (1, 3, 4)]


def test_a_record_is_skipped_once(deployment: CliDeployment, tmp_path: Path) -> None:
    """An invalid record before the resume point is reported only once."""
    path = tmp_path / "companions.csv"
    header, *rows = as_csv([person(number) for number in (1, 2, 3)]).splitlines()
    path.write_text("\n".join([header, '"a"b', *rows]))
    cut_short(deployment, path, 2)
    result = deployment.run_command("companions", "import", path)
    assert result.stderr.endswith("staffbooking: 1 of 4 rows were skipped\n")
    assert len(emails(deployment)) == 3


def test_a_finished_import_is_not_resumed(deployment: CliDeployment, file: Path) -> None:
    """A finished import of the same file starts from the first line and updates."""
    deployment.run_command("companions", "import", file, "--json")
    result = deployment.run_command("companions", "import", file, "--json")
    assert "resuming" not in result.stderr
    assert json.loads(result.stdout)["updated"] == 3


def test_an_import_interrupted_after_its_last_row_repeats_its_result(
    deployment: CliDeployment, file: Path
) -> None:
    """An import interrupted after its last row imports nothing again and gives the same result."""
    cut_short(deployment, file, len(ROWS))
    document = json.loads(deployment.run_command("companions", "import", file, "--json").stdout)
    assert (document["imported"], document["updated"], len(document["skipped"])) == (3, 0, 2)


def test_a_restart_imports_all_rows(deployment: CliDeployment, file: Path) -> None:
    """With --restart all rows are imported again, and the counts are of this run only."""
    cut_short(deployment, file, 3)
    result = deployment.run_command("companions", "import", file, "--restart", "--json")
    assert "resuming" not in result.stderr
    document = json.loads(result.stdout)
    assert (document["imported"], document["updated"], len(document["skipped"])) == (1, 2, 2)


def test_a_changed_file_is_another(deployment: CliDeployment, file: Path) -> None:
    """A changed file is imported from its first line."""
    cut_short(deployment, file, 3)
    file.write_text(as_lines([*ROWS, person(6)]))
    result = deployment.run_command("companions", "import", file, "--json")
    assert "resuming" not in result.stderr
    assert json.loads(result.stdout)["updated"] == 2


def test_a_moved_file_is_the_same(deployment: CliDeployment, file: Path) -> None:
    """A moved file with the same content is resumed."""
    cut_short(deployment, file, 3)
    moved = file.rename(file.with_name("elsewhere.ndjson"))
    assert "resuming" in deployment.run_command("companions", "import", moved, "--json").stderr


def test_a_long_table_comes_in_parts(
    deployment: CliDeployment, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each skipped row is in one of several tables; the counts are of all."""
    monkeypatch.setattr(render, "MAX_TABLE_ROWS", 2)
    monkeypatch.setattr(bulk, "SKIPPED_PAGE_SIZE", 2)
    file.write_text(as_lines([person(number, tier="gold") for number in range(1, 6)]))
    result = deployment.run_command("companions", "import", file)
    assert result.stdout.count("skipped\n") == 3
    assert all(result.stdout.count(f"mia{number}@") == 1 for number in range(1, 6))
    assert result.stdout.split()[-3:] == ["0", "0", "5"]


def test_a_line_without_end_is_named(deployment: CliDeployment, file: Path) -> None:
    """A line above the limit is skipped without being held in memory; the next lines are
    imported."""
    long = json.dumps(person(1, bio="x" * (1 << 21)))
    file.write_text("\n".join([long, json.dumps(person(2)), long]))
    assert skipped(deployment, file) == [
        (line, None, "is longer than 1,048,576 characters") for line in (1, 3)
    ]
    assert emails(deployment) == ["mia2@example.com"]


def test_the_row_that_the_store_refuses_is_found(
    deployment: CliDeployment, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one row that violates a constraint is found and skipped; the others are imported."""
    monkeypatch.setattr("staffbooking_adapters.memory.bulk_import.find_by_email", lambda *_: None)
    deployment.run_on_ports(lambda ports: administration.create_user(ports, OTHER))
    file.write_text(as_lines([person(number) for number in range(1, 6)]))
    assert skipped(deployment, file) == [(3, "mia3@example.com", "uq_users_email")]
    assert len(emails(deployment)) == 5


OTHER = administration.CreateUser(
    email="mia3@example.com", first_name="Mia", last_name="Silva", role=Role.CUSTOMER
)


# Real processes ---------------------------------------------------------------------------

PAUSE_SECONDS = 0.02
MANY = 3 * bulk.IMPORT_BATCH_SIZE


def test_an_import_that_is_killed_loses_and_doubles_nothing(
    migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import killed after its first batch resumes: every row is imported once, and the counts
    are right."""
    path, env = tmp_path / "many.jsonl", make_environment(DATABASE_URL=migrated_url)
    bad = {"tier": "gold"}
    rows = [person(n, **(bad if n % 100 == 0 else {})) for n in range(1, MANY + 1)]
    path.write_text(as_lines(rows))

    async def kill_after_first_batch(process: subprocess.Popen[str]) -> None:
        fingerprint = ImportFile(path).fingerprint
        async with open_ports(load_settings(env)) as ports:
            line = 0
            while not line:
                await anyio.sleep(PAUSE_SECONDS)
                progress = await ports.store.run_transaction(
                    lambda tx: tx.imports.lock_progress(fingerprint)
                )
                line = 0 if progress is None else progress.line
            process.kill()

    async def everybody() -> set[str]:
        found: list[Any] = []
        async with open_ports(load_settings(env)) as ports:
            while page := await administration.list_users_after(
                ports, found[-1].id if found else 0, 1_000
            ):
                found += page
        assert len(found) == len({user.email for user in found})
        return {user.email for user in found}

    with run_in_background("companions", "import", path, "--json", env=env) as process:
        anyio.run(kill_after_first_batch, process)
        assert process.wait() == -signal.SIGKILL
    again = deployment_on(migrated_url, monkeypatch).run_command(
        "companions", "import", path, "--json"
    )
    assert "resuming after line" in again.stderr
    document = json.loads(again.stdout)
    assert (document["imported"], document["updated"]) == (MANY - MANY // 100, 0)
    assert [one["line"] for one in document["skipped"]] == list(range(100, MANY + 1, 100))
    assert anyio.run(everybody) == {row["email"] for row in rows if "tier" not in row}
