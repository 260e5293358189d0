"""`staffbooking users`: accounts as tables and JSON."""

from __future__ import annotations

import json

import pytest

from staffbooking_adapters.testing.builders import add_booking, add_companion, add_user
from staffbooking_core.usecases.accounts import administration
from tests.cli.deployment import CliDeployment, add_completed_booking, add_paid_booking

ADA = ("ada@example.com", "--first-name", "Ada", "--last-name", "Okoro")


def test_an_account_is_made(deployment: CliDeployment) -> None:
    """The record is the published one with all given values."""
    made = deployment.run_json(
        "users", "create", *ADA, "--role", "admin", "--subscription", "enterprise"
    )["user"]
    del made["created_at"]
    assert made == {
        "id": 1,
        "email": "ada@example.com",
        "first_name": "Ada",
        "last_name": "Okoro",
        "role": "admin",
        "subscription": "enterprise",
        "subscription_expires_at": None,
        "email_verified": False,
        "disabled_at": None,
    }


def test_an_account_is_a_customers_by_default(deployment: CliDeployment) -> None:
    """By default an account is a customer's without a subscription."""
    made = deployment.run_json("users", "create", *ADA)["user"]
    assert (made["role"], made["subscription"]) == ("customer", "none")


def test_the_given_password_is_set(deployment: CliDeployment) -> None:
    """The password given by --password signs in."""
    deployment.run_json("users", "create", *ADA, "--password", "long enough")
    assert password_of(deployment) == "plain:long enough"


def password_of(deployment: CliDeployment) -> str | None:
    return deployment.run_on_ports(
        lambda ports: administration.get_user(ports, "ada@example.com")
    ).password_hash


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("not-an-address", *ADA[1:]), "staffbooking: email: must be an e-mail address"),
        ((*ADA, "--password", "short"), "staffbooking: password: must have 10 to 128 characters"),
        ((*ADA[:2], " ", *ADA[3:]), "staffbooking: first_name: must not be blank"),
    ],
)
def test_a_bad_account_is_refused(
    deployment: CliDeployment, arguments: tuple[str, ...], line: str
) -> None:
    """An invalid value gives one line with its field."""
    assert deployment.run_refused("users", "create", *arguments) == line


def test_a_taken_address_is_refused(deployment: CliDeployment) -> None:
    """An e-mail, in any letter case, belongs to one account."""
    deployment.run_json("users", "create", *ADA)
    line = deployment.run_refused("users", "create", "ADA@example.com", *ADA[1:])
    assert line == "staffbooking: email: is registered already"


def test_a_list_has_everybody(deployment: CliDeployment) -> None:
    """All accounts are listed over several pages, ordered by id."""

    async def many(ports):
        for _ in range(501):
            await add_user(ports.store)

    deployment.run_on_ports(many)
    users = deployment.run_json("users", "list")["users"]
    assert [user["id"] for user in users] == list(range(1, 502))


def test_an_empty_list_is_a_list(deployment: CliDeployment) -> None:
    """Without accounts the document has an empty list."""
    assert deployment.run_json("users", "list") == {"users": []}


def test_a_table_cuts_nothing(deployment: CliDeployment) -> None:
    """A table written to a pipe has whole e-mails and no color."""
    email = f"{'x' * 60}@{'y' * 80}.example.com"
    deployment.run_json("users", "create", email, *ADA[1:])
    table = deployment.run_table("users", "list")
    assert email in table
    assert "\x1b" not in table


def test_a_table_escapes_control_characters(deployment: CliDeployment) -> None:
    """Control characters in names of earlier releases are escaped; new names can't contain them."""
    name = "\x1b[31mA\u202e"
    line = deployment.run_refused("users", "create", ADA[0], "--first-name", name, *ADA[3:])
    assert line == "staffbooking: first_name: must not hold the character U+001B"
    deployment.run_on_ports(lambda ports: add_user(ports.store, first_name=name))
    table = deployment.run_table("users", "list")
    assert r"\x1b[31mA\u202e" in table


def test_an_account_is_shown(deployment: CliDeployment) -> None:
    """An account is found by its e-mail in any letter case."""
    deployment.run_json("users", "create", *ADA)
    assert deployment.run_json("users", "show", "Ada@Example.com")["user"]["id"] == 1
    assert "ada@example.com" in deployment.run_table("users", "show", ADA[0])


@pytest.mark.parametrize("command", [("show",), ("disable",), ("enable",), ("subscribe", "basic")])
def test_an_unknown_account_is_refused(deployment: CliDeployment, command: tuple[str, ...]) -> None:
    """Every command gives one line for an unknown account."""
    name, *rest = command
    line = deployment.run_refused("users", name, "nobody@example.com", *rest)
    assert line == "staffbooking: User not found"


def test_a_subscription_may_end(deployment: CliDeployment) -> None:
    """A subscription has the given end, in UTC."""
    deployment.run_json("users", "create", *ADA)
    user = deployment.run_json(
        "users", "subscribe", ADA[0], "enterprise", "--until", "2027-03-01T10:00:00+02:00"
    )["user"]
    assert user["subscription"] == "enterprise"
    assert user["subscription_expires_at"] == "2027-03-01T08:00:00Z"


def test_the_end_of_a_subscription_is_bounded(deployment: CliDeployment) -> None:
    """The last microsecond of 9999, which PostgreSQL reads as infinity, is refused."""
    deployment.run_json("users", "create", *ADA)
    until = ("--until", "9999-12-31T23:59:59.999999Z")
    result = deployment.run_command("users", "subscribe", ADA[0], "enterprise", *until)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "is not an instant" in result.stderr


def test_an_account_is_locked_and_opened(deployment: CliDeployment) -> None:
    """A disabled account has the time of disabling, and search hides its companion."""
    companion = deployment.run_on_ports(lambda ports: add_companion(ports.store))
    email = deployment.run_json("users", "list")["users"][0]["email"]
    assert deployment.run_json("users", "disable", email)["user"]["disabled_at"] is not None
    assert deployment.run_json("companions", "list")["companions"][0]["active"] is False
    assert deployment.run_json("users", "enable", email)["user"]["disabled_at"] is None
    listed = deployment.run_json("companions", "list")["companions"][0]
    assert (listed["id"], listed["active"]) == (companion.id, True)


def test_the_last_admin_is_disabled_with_a_warning(deployment: CliDeployment) -> None:
    """The warning comes with the last admin who can sign in, not before, and not for others."""
    ada, eve = ADA[0], "eve@example.com"
    for email in (ada, eve):
        deployment.run_json("users", "create", email, *ADA[1:], "--role", "admin")
    deployment.run_json("users", "create", "max@example.com", *ADA[1:])
    warned = [
        "no admin is left" in deployment.run_command("users", "disable", email, "--json").stderr
        for email in (ada, eve, "max@example.com")
    ]
    assert warned == [False, True, False]


def test_a_password_is_set(deployment: CliDeployment) -> None:
    """The option's password replaces the current one."""
    deployment.run_json("users", "create", *ADA, "--password", "the first one")
    deployment.run_json("users", "set-password", ADA[0], "--password", "the second one")
    assert password_of(deployment) == "plain:the second one"


def test_a_password_is_read_from_standard_input(deployment: CliDeployment) -> None:
    """Without the option the password is the first line of standard input and is not printed."""
    deployment.run_json("users", "create", *ADA)
    printed = deployment.run_json("users", "set-password", ADA[0], stdin="from a pipe \n")
    assert password_of(deployment) == "plain:from a pipe "
    assert "pipe" not in str(printed)


def test_a_person_is_exported(deployment: CliDeployment) -> None:
    """All stored data of a user is one document."""
    deployment.run_json("users", "create", *ADA)
    printed = deployment.run_command("users", "export", "ada@example.com")
    found = json.loads(printed.stdout)
    assert (found["user"]["email"], found["bookings"]) == ("ada@example.com", [])


def test_a_user_is_erased(deployment: CliDeployment) -> None:
    """Erasing works once; the remaining account has no name."""
    deployment.run_json("users", "create", *ADA)
    left = deployment.run_json("users", "erase", "ada@example.com")["user"]
    assert (left["email"][:9], left["first_name"]) == ("erased-1-", "Erased")
    for word in ("erase", "export"):
        assert (
            deployment.run_refused("users", word, "ada@example.com")
            == "staffbooking: User not found"
        )


def test_a_user_with_open_bookings_is_not_erased(deployment: CliDeployment) -> None:
    """Erasing a user with open bookings is refused with one line."""
    customer = deployment.run_on_ports(lambda ports: add_user(ports.store, email="ada@example.com"))
    deployment.run_on_ports(lambda ports: add_booking(ports.store, customer=customer))
    line = "staffbooking: Bookings are open, or money is owed for them"
    assert deployment.run_refused("users", "erase", "ada@example.com") == line


# Disabling with bookings ahead ------------------------------------------------------------------


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_bookings_ahead_need_a_decision(deployment: CliDeployment, flags: tuple[str, ...]) -> None:
    """Without --bookings the command lists what is ahead, exits with 1 and changes nothing."""
    party = deployment.run_on_ports(add_paid_booking)
    result = deployment.run_command("users", "disable", "ada@example.com", *flags)
    assert result.exit_code == 1
    line = "staffbooking: Accepted or paid bookings are ahead: cancel them or keep them"
    assert (result.stderr.strip(), party.booking.code in result.stdout) == (line, True)
    shown = deployment.run_json("users", "show", "ada@example.com")["user"]
    assert shown["disabled_at"] is None


def test_the_refusal_is_one_document(deployment: CliDeployment) -> None:
    """The list of a refusal is one JSON document of bookings and payouts."""
    party = deployment.run_on_ports(add_paid_booking)
    result = deployment.run_command("users", "disable", "ada@example.com", "--json")
    document = json.loads(result.stdout)
    assert [one["booking_code"] for one in document["bookings"]] == [party.booking.code]
    assert document["payouts"] == []


@pytest.mark.parametrize(
    ("decision", "status", "name"),
    [("cancel", "cancelled", "cancelled"), ("keep", "paid", "bookings")],
)
def test_a_decision_is_carried_out(
    deployment: CliDeployment, decision: str, status: str, name: str
) -> None:
    """With --bookings the account is disabled, and its bookings are cancelled or kept."""
    deployment.run_on_ports(add_paid_booking)
    command = ("users", "disable", "ada@example.com", "--bookings", decision)
    document = deployment.run_json(*command, "--reason", "fraud")
    assert document["user"]["disabled_at"] is not None
    assert [one["status"] for one in document[name]] == [status]


def test_held_payouts_are_shown(deployment: CliDeployment) -> None:
    """The payouts that were put on hold are in the table."""

    async def completed(ports):
        party = await add_completed_booking(ports)
        async with ports.store.read_view() as view:
            return party.booking.code, (await view.accounts.user(party.companion_id)).email

    code, email = deployment.run_on_ports(completed)
    table = deployment.run_table("users", "disable", email)
    assert code in table
    assert "frozen" in table


def test_an_unknown_decision_is_a_usage_error(deployment: CliDeployment) -> None:
    """Another value of --bookings is a usage error."""
    result = deployment.run_command("users", "disable", "ada@example.com", "--bookings", "end")
    assert result.exit_code == 2


def test_a_long_reason_is_refused(deployment: CliDeployment) -> None:
    """A reason over 300 characters is refused by its name."""
    line = deployment.run_refused("users", "disable", "ada@example.com", "--reason", "x" * 301)
    assert line.startswith("staffbooking: reason: ")
