"""Help and short commands import only what they need, and option values equal the core's."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from typing import Annotated, get_args

import pytest
import typer
from typer.testing import CliRunner

from staffbooking_cli import operators, options
from staffbooking_cli.app import Commands, FaultNamingCommand
from staffbooking_core import __version__
from staffbooking_core.bounds import MAX_ID
from staffbooking_core.domain.accounts import api_keys
from staffbooking_core.domain.accounts.audit import AuditSubject
from staffbooking_core.domain.accounts.users import Role, Subscription
from staffbooking_core.domain.bookings import lifecycle
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.companions.portfolio import PortfolioItemStatus
from staffbooking_core.operator_inputs import BookingsOfDisabled
from tests.cli.deployment import CliDeployment

IMPORTED = """
import json, sys
from staffbooking_cli.main import main
for arguments in json.loads(sys.argv.pop()):
    sys.argv = ["staffbooking", *arguments]
    try:
        main()
    except SystemExit as end:
        packages = sorted({name.partition(".")[0] for name in sys.modules})
        print(json.dumps([end.code, packages]), file=sys.stderr)
"""
HEAVY = {
    "alembic",
    "anyio",
    "asyncpg",
    "attrs",
    "cattrs",
    "litestar",
    "msgspec",
    "rich",
    "sqlalchemy",
    "staffbooking_adapters",
    "staffbooking_core",
    "staffbooking_http",
    "staffbooking_worker",
    "stripe",
    "uvicorn",
}
NOT_IN_SHORT_COMMANDS = {
    "aiodns",
    "aiohttp",
    "alembic",
    "asyncpg",
    "babel",
    "cryptography",
    "httpx",
    "icalendar",
    "jinja2",
    "litestar",
    "PIL",
    "pydantic",
    "redis",
    "rich",
    "staffbooking_http",
    "staffbooking_worker",
    "stripe",
    "structlog",
    "uvicorn",
}
"""Packages that no short command on SQLite needs; `rich` lays out tables."""
COMMANDS = (
    "demo",
    "serve",
    "worker",
    "db upgrade",
    "db check",
    "users create",
    "users list",
    "users show",
    "users subscribe",
    "users disable",
    "users enable",
    "users set-password",
    "users export",
    "users erase",
    "companions list",
    "companions approve",
    "companions suspend",
    "companions import",
    "portfolio list",
    "portfolio approve",
    "portfolio reject",
    "reviews list",
    "reviews hide",
    "reviews show",
    "keys create",
    "keys list",
    "keys revoke",
    "bookings list",
    "bookings show",
    "disputes list",
    "disputes show",
    "disputes resolve",
    "payouts list",
    "payouts show",
    "payouts hold",
    "payouts release",
    "payouts retry",
    "refunds list",
    "refunds retry",
    "payments reconcile",
    "ledger check",
    "ledger show",
    "audit list",
    "webhooks list",
    "webhooks deliveries",
    "webhooks redeliver",
    "webhooks enable",
    "webhooks tail",
    "inquiries list",
    "secrets rotate",
    "sandbox clock show",
    "sandbox clock advance",
    "sandbox clock set",
    "openapi",
    "doctor",
)


def test_help_imports_nothing_heavy() -> None:
    """Help loads no driver, no framework and no service module."""
    printed, loaded = run_and_list_packages("--help", "companions import --help")
    assert printed.count("Usage: staffbooking") == 2
    for packages in loaded:
        assert packages & HEAVY == set()


def test_a_short_command_imports_what_it_needs(env: dict[str, str]) -> None:
    """A short command loads no web framework, no HTTP client, no driver of another database and
    nothing that only other commands use."""
    commands = ("users list", "payouts list", "webhooks list", "ledger check")
    _, loaded = run_and_list_packages(*(f"{each} --json" for each in commands), env=env)
    for command, packages in zip(commands, loaded, strict=True):
        assert packages & NOT_IN_SHORT_COMMANDS == set(), command


def test_a_process_that_goes_on_collects_garbage_as_usual() -> None:
    """A command collects garbage rarely. A process that has loaded what it needs collects it as
    often as by default, but not in what is loaded."""
    code = (
        "import gc; usual = gc.get_threshold(); from staffbooking_cli import garbage\n"
        "garbage.collect_rarely(); print(gc.get_threshold()[0] > 100 * usual[0])\n"
        "garbage.collect_as_usual(); print(gc.get_threshold() == usual, gc.get_freeze_count() > 0)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True", "True", "True"]


def test_a_process_keeps_no_source_of_generated_methods() -> None:
    """A process of the command line keeps no source of the methods that attrs generates; source
    that is read from files is found as before."""
    code = (
        "import linecache; from staffbooking_cli import garbage\n"
        "garbage.forget_generated_source(); import attrs, staffbooking_core.policy\n"
        "print(sum(name.startswith('<attrs generated') for name in linecache.cache))\n"
        "print(bool(linecache.getlines(attrs.__file__)), attrs.__file__ in linecache.cache)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["0", "True", "True"]


def run_and_list_packages(
    *commands: str, env: dict[str, str] | None = None
) -> tuple[str, list[set[str]]]:
    """Run commands one after the other in a process of their own: what they print, and the packages
    that are loaded after each."""
    ran = subprocess.run(
        [sys.executable, "-c", IMPORTED, json.dumps([each.split() for each in commands])],
        capture_output=True,
        text=True,
        check=True,
        env=env,
    )
    ended = [json.loads(line) for line in ran.stderr.splitlines()]
    assert [code for code, _ in ended] == [0] * len(commands)
    return ran.stdout, [set(packages) for _, packages in ended]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(deployment: CliDeployment, command: str) -> None:
    """Every command of the contract exists and has a description."""
    printed = deployment.run_table(*command.split(), "--help")
    assert printed.startswith(f"Usage: root {command} ")


def test_the_version_is_printed(deployment: CliDeployment) -> None:
    """`--version` prints the name and the version of the package."""
    result = deployment.run_command("--version")
    assert (result.exit_code, result.stdout) == (0, f"staffbooking {__version__}\n")


def test_an_unknown_command_is_a_usage_error(deployment: CliDeployment) -> None:
    """Unknown commands and options exit with 2."""
    for arguments in (["fly"], ["users", "fly"], ["users", "list", "--fly"], []):
        assert deployment.run_command(*arguments).exit_code == 2


def test_every_fault_of_a_command_is_named(deployment: CliDeployment) -> None:
    """Wrong and missing options and arguments are named together, with exit code 2."""
    result = deployment.run_command("users", "create", "--role", "king", "--subscription", "gold")
    assert result.exit_code == 2
    for fault in ("EMAIL", "--first-name", "--last-name", "king", "gold"):
        assert fault in result.stderr


def refuse_as_newer_typers(_: str) -> str:
    raise typer.BadParameter("Value error, 'fly' is not one of 'read', 'book'.")


def test_a_wrong_choice_is_told_in_plain_words() -> None:
    """What a newer typer puts before a message about a value is left out, for one fault or many."""
    app = typer.Typer()

    @app.command(cls=FaultNamingCommand)
    def run(
        first: Annotated[str, typer.Option(parser=refuse_as_newer_typers)] = "",
        second: Annotated[str, typer.Option(parser=refuse_as_newer_typers)] = "",
    ) -> None:
        """Do nothing."""

    for arguments in (["--first", "fly"], ["--first", "fly", "--second", "fly"]):
        told = CliRunner().invoke(app, arguments).stderr
        assert "Invalid value for '--first': 'fly' is not one of 'read', 'book'." in told


def test_every_fault_of_the_values_is_named(deployment: CliDeployment) -> None:
    """Values out of bounds are named together in one line."""
    names = ("--first-name", " ", "--last-name", "Poe")
    line = deployment.run_refused("users", "create", "nobody", *names, "--password", "short")
    assert all(field in line for field in ("email: ", "first_name: ", "password: "))


def test_help_that_can_not_be_written_is_refused(
    deployment: CliDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk while help is written gives one error line."""

    def full(*_: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Commands, "get_help", full)
    assert deployment.run_refused("--help") == "staffbooking: No space left on device"


def test_the_choices_are_the_cores() -> None:
    """The values that an option offers equal the core's."""
    assert get_args(options.Role) == tuple(Role)
    assert get_args(options.Tier) == tuple(Subscription)
    assert get_args(options.BookingsDecisionOption) == tuple(BookingsOfDisabled)
    assert get_args(options.Status) == tuple(lifecycle.BookingStatus)
    assert get_args(options.Approval) == tuple(Approval)
    assert get_args(options.ItemStatus) == tuple(PortfolioItemStatus)
    assert get_args(operators.Subject) == tuple(AuditSubject)
    assert list(map(str, options.PermissionOption)) == list(map(str, api_keys.Permission))
    assert options.MAX_ID == MAX_ID
