"""`staffbooking keys`: creation, masked list, revocation."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import add_subscriber, add_user
from staffbooking_core.domain.accounts.api_keys import is_well_formed_api_key, mask_api_key
from tests.cli.deployment import CliDeployment

EMAIL = "agency@example.com"
CREATE = ("keys", "create", EMAIL, "--name", "Back office", "--permission", "read")


@pytest.fixture(autouse=True)
def subscriber(deployment: CliDeployment) -> None:
    deployment.run_on_ports(lambda ports: add_subscriber(ports.store, email=EMAIL))


def test_a_key_is_made(deployment: CliDeployment) -> None:
    """The document contains the key and its record."""
    made = deployment.run_json(*CREATE, "--permission", "book", "--permission", "read")
    assert list(made) == ["key", "api_key"]
    assert is_well_formed_api_key(made["key"])
    record = made["api_key"]
    assert record["masked_key"] == mask_api_key(made["key"])
    assert (record["name"], record["permissions"]) == ("Back office", ["read", "book"])
    assert record["expires_at"] is None


def test_the_key_is_shown_whole(deployment: CliDeployment) -> None:
    """The table has all 68 characters and a note that they are shown only once."""
    result = deployment.run_command(*CREATE)
    assert any(is_well_formed_api_key(word) for word in result.stdout.split())
    assert "only time" in result.stderr


def test_a_key_may_expire(deployment: CliDeployment) -> None:
    """The expiry is kept as UTC."""
    made = deployment.run_json(*CREATE, "--expires-at", "2999-03-01T10:00:00+01:00")
    assert made["api_key"]["expires_at"] == "2999-03-01T09:00:00Z"


def test_an_expiry_finer_than_a_microsecond_is_cut(deployment: CliDeployment) -> None:
    """An expiry with nine decimals of a second is cut to microseconds."""
    made = deployment.run_json(*CREATE, "--expires-at", "2999-03-01T09:00:00.123456789Z")
    assert made["api_key"]["expires_at"] == "2999-03-01T09:00:00.123456Z"


def test_a_past_expiry_is_refused(deployment: CliDeployment) -> None:
    """A key with an expiry in the past is refused."""
    line = deployment.run_refused(*CREATE, "--expires-at", "2020-01-01T00:00:00Z")
    assert line == "staffbooking: expires_at: must lie in the future"


def test_keys_need_a_subscription(deployment: CliDeployment) -> None:
    """An account without the enterprise subscription gets no key."""
    deployment.run_on_ports(lambda ports: add_user(ports.store, email="ada@example.com"))
    line = deployment.run_refused("keys", "create", "ada@example.com", *CREATE[3:])
    assert line == "staffbooking: An active enterprise subscription is required"


def test_a_disabled_account_gets_no_key(deployment: CliDeployment) -> None:
    """A disabled account gets no key, and the line names the command that enables it."""
    deployment.run_json("users", "disable", EMAIL)
    line = deployment.run_refused(*CREATE)
    assert line == f"staffbooking: the account is disabled: `staffbooking users enable {EMAIL}`"


def test_a_sixth_key_is_refused(deployment: CliDeployment) -> None:
    """An account has at most five active keys."""
    for _ in range(5):
        deployment.run_json(*CREATE)
    assert deployment.run_refused(*CREATE) == "staffbooking: An account has at most 5 active keys"


@pytest.mark.parametrize(
    "arguments", [CREATE[:-2], (*CREATE, "--permission", "write"), CREATE[:3] + CREATE[5:]]
)
def test_a_key_needs_a_name_and_known_permissions(
    deployment: CliDeployment, arguments: tuple[str, ...]
) -> None:
    """A missing name or an unknown permission is a usage error."""
    assert deployment.run_command(*arguments).exit_code == 2


def test_keys_are_listed_masked(deployment: CliDeployment) -> None:
    """The list is newest first and contains only masked keys."""
    first, second = deployment.run_json(*CREATE), deployment.run_json(*CREATE)
    listed = deployment.run_json("keys", "list", EMAIL)["keys"]
    assert listed == [second["api_key"], first["api_key"]]
    assert first["key"] not in deployment.run_table("keys", "list", EMAIL)


def test_a_key_is_revoked(deployment: CliDeployment) -> None:
    """A revoked key stays in the list with the time of its revocation."""
    made = deployment.run_json(*CREATE)["api_key"]
    assert deployment.run_json("keys", "revoke", made["id"]) == {"success": True}
    assert deployment.run_json("keys", "list", EMAIL)["keys"][0]["revoked_at"] is not None


def test_an_unknown_key_is_refused(deployment: CliDeployment) -> None:
    """Revoking an unknown key is refused."""
    assert deployment.run_refused("keys", "revoke", 77) == "staffbooking: API key not found"
