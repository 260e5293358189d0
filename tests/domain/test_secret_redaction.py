"""Representations of objects contain no secrets."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from staffbooking_core.domain.accounts.api_keys import ApiKey, Permission
from staffbooking_core.domain.accounts.users import Role, Session, Subscription, User
from staffbooking_core.inputs import Login, Register, RegistrationRole
from staffbooking_core.ports import NewApiKey, NewUser
from staffbooking_core.usecases.accounts.administration import CreateUser

NOW = datetime(2027, 3, 1, tzinfo=UTC)
SECRET = "hush-hush-hush"
NAMES: dict[str, Any] = {"email": "ada@example.com", "first_name": "Ada", "last_name": "Okoro"}
DIGEST = SECRET.encode()
KEY: dict[str, Any] = {
    "owner_id": 1,
    "name": "Till",
    "digest": DIGEST,
    "masked_key": "ps_abcd…wxyz",
}


@pytest.mark.parametrize(
    "holder",
    [
        User(id=1, **NAMES, role=Role.STAFF, created_at=NOW, password_hash=SECRET),
        NewUser(**NAMES, role=Role.STAFF, created_at=NOW, password_hash=SECRET),
        CreateUser(**NAMES, role=Role.STAFF, password=SECRET, subscription=Subscription.NONE),
        Register(**NAMES, role=RegistrationRole.STAFF, password=SECRET),
        Login(email="ada@example.com", password=SECRET),
        Session(DIGEST, 1, NOW, NOW),
        ApiKey(id=1, permissions=frozenset({Permission.READ}), created_at=NOW, **KEY),
        NewApiKey(permissions=frozenset({Permission.READ}), created_at=NOW, **KEY),
    ],
    ids=lambda holder: type(holder).__name__,
)
def test_a_secret_is_not_shown(holder: object) -> None:
    """Representations contain no passwords, password hashes and token digests."""
    assert SECRET not in repr(holder)
