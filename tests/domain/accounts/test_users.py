"""Users and sessions, and whether an API key or a session is accepted."""

from __future__ import annotations

from datetime import timedelta

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    NOW,
    SECOND,
    make_new_api_key,
    make_session,
    make_user,
)
from staffbooking_core.domain.accounts.api_keys import ApiKey, Permission
from staffbooking_core.domain.accounts.users import (
    Actor,
    Role,
    Subscription,
    check_api_key,
    csrf_token,
    hash_session_token,
    is_email,
    is_session_valid,
    normalize_email,
)
from staffbooking_core.errors import Forbidden, Unauthenticated

MICRO = timedelta(microseconds=1)
UNSEEN = "\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\xad\ufe0f\u202e\u3164\U000e0041"
ENTERPRISE = {"subscription": Subscription.ENTERPRISE}


def key(**given):
    new = make_new_api_key()
    fields = {name: getattr(new, name) for name in ("owner_id", "name", "digest", "masked_key")}
    defaults = {"id": 1, "permissions": frozenset({Permission.READ}), "created_at": NOW}
    return ApiKey(**{**fields, **defaults, **given})


def refusal(api_key, owner, permission=Permission.READ):
    """The error code with which a key is refused, or None."""
    try:
        check_api_key(api_key, owner, permission, NOW)
    except (Unauthenticated, Forbidden) as error:
        return error.code
    return None


def test_an_enterprise_key_with_the_permission_works():
    """An active key of an active subscriber with the permission is accepted."""
    assert refusal(key(), make_user(**ENTERPRISE)) is None


@pytest.mark.parametrize(
    "fields",
    [{"revoked_at": NOW - DAY}, {"expires_at": NOW}, {"expires_at": NOW - MICRO}],
)
def test_a_revoked_or_expired_key_is_none(fields):
    """A key is refused from the moment of its revocation or expiry."""
    assert refusal(key(**fields), make_user(**ENTERPRISE)) == "invalid_api_key"


def test_a_key_works_until_its_end():
    """A key is accepted until just before it expires."""
    assert refusal(key(expires_at=NOW + MICRO), make_user(**ENTERPRISE)) is None


def test_a_disabled_owners_key_is_none():
    """The key of a disabled user is refused, also that of an admin."""
    owner = make_user(role=Role.ADMIN, disabled_at=NOW - DAY)
    assert refusal(key(), owner) == "invalid_api_key"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"subscription": Subscription.BASIC},
        {**ENTERPRISE, "subscription_expires_at": NOW},
    ],
)
def test_a_key_needs_an_active_subscription(fields):
    """A user without enterprise subscription, or with an expired one, is refused."""
    assert refusal(key(), make_user(**fields)) == "subscription_required"


def test_a_subscription_lasts_until_its_end():
    """A key is accepted until just before the subscription expires."""
    owner = make_user(**ENTERPRISE, subscription_expires_at=NOW + MICRO)
    assert refusal(key(), owner) is None


def test_a_key_needs_the_permission():
    """A key with the read permission cannot book."""
    owner = make_user(**ENTERPRISE)
    assert refusal(key(), owner, Permission.BOOK) == "permission_required"


def test_what_needs_no_permission_passes_any_key():
    """Any valid key is accepted where no permission is required."""
    nothing = key(permissions=frozenset())
    assert refusal(nothing, make_user(**ENTERPRISE), None) is None


def test_an_admin_passes_tier_and_permission():
    """An admin's key needs neither subscription nor permission (SPECIFICATION 5)."""
    nothing = key(permissions=frozenset())
    assert refusal(nothing, make_user(role=Role.ADMIN), Permission.BOOK) is None


def is_signed_in(idle=0 * HOUR, age=0 * HOUR, **user):
    session = make_session(seen_at=NOW - idle, created_at=NOW - age)
    return is_session_valid(
        session, make_user(**user), NOW, idle_timeout=12 * HOUR, lifetime=7 * DAY
    )


@pytest.mark.parametrize(
    "idle, age, found",
    [
        (12 * HOUR - MICRO, 12 * HOUR, True),
        (12 * HOUR, 12 * HOUR, False),
        (SECOND, 7 * DAY - MICRO, True),
        (SECOND, 7 * DAY, False),
    ],
)
def test_a_session_idles_out_and_ends(idle, age, found):
    """A session expires after 12 hours without use, or 7 days in total."""
    assert is_signed_in(idle, age) is found


def test_a_disabled_user_is_not_signed_in():
    """A disabled user's session is invalid, however recent it is."""
    assert not is_signed_in(disabled_at=NOW)


def test_emails_compare_without_case():
    """Email addresses that differ in case only, also of non-ASCII letters, are equal."""
    assert normalize_email("ADA@Exämple.COM") == normalize_email("ada@exÄmple.com")
    assert normalize_email("GROẞ@example.com") == normalize_email("groß@example.com")


def test_emails_with_other_letters_differ():
    """Letters that are alike in capitals only are different ones."""
    assert normalize_email("groß@example.com") != normalize_email("gross@example.com")


@pytest.mark.parametrize(
    "text",
    [
        "ada@example.com",
        "a.b+c@sub.example.co.uk",
        "o'neil@example.com",
        "ä@exämple.com",
    ],
)
def test_usual_addresses_pass(text):
    """Common forms of email addresses are accepted."""
    assert is_email(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ada",
        "ada@",
        "@example.com",
        "ada@example",
        "ada@@example.com",
        "a b@example.com",
        "ada@example..com",
        "a..b@example.com",
        "ada@example.com\n",
        "ada\x00@example.com",
        "ada\r\nBcc: x@example.com",
        '"ada"@example.com',
        "=?utf-8?q?a=0D=0AX-Evil=3A_b?=@x.com",
        "x" * 65 + "@example.com",
        "ada@" + "x" * 250 + ".com",
        "ada@example.com>",
        "ada@example.com,",
        "ada@example.com;sam",
        "ada@example.c:25",
        "ada@example.com.",
        "ada@example.com\x7f",
        *(f"a{unseen}da@example.com" for unseen in UNSEEN),
        *(f"ada@exam{unseen}ple.com" for unseen in UNSEEN),
        *(f"ada@example.com{unseen}" for unseen in UNSEEN),
    ],
)
def test_what_is_no_address_is_refused(text):
    """Invalid addresses are refused, among them header injections and invisible characters."""
    assert not is_email(text)


@given(st.text(max_size=40))
def test_any_text_is_judged(text):
    """The check accepts any text without an error, and refuses line breaks."""
    if is_email(text):
        assert not set(text) & set("\r\n\x00 <>")


def test_only_the_digest_of_a_token_is_kept():
    """The digest of a session token has 32 bytes and differs between tokens."""
    assert len(hash_session_token("a")) == 32
    assert hash_session_token("a") != hash_session_token("b")


def test_a_csrf_token_belongs_to_its_session():
    """The CSRF token is stable for a session, differs between sessions, and is not the token
    itself."""
    assert csrf_token("a") == csrf_token("a") != csrf_token("b")
    assert "a" * 40 not in csrf_token("a" * 40)


def test_a_name_is_first_and_last():
    """The name is the first and the last name."""
    assert make_user(first_name="Ada", last_name="Okoro").name == "Ada Okoro"


def test_an_actor_knows_an_admin():
    """An actor is an admin by the role only."""
    assert Actor(1, Role.ADMIN).is_admin
    assert not evolve(Actor(1, Role.ADMIN), role=Role.STAFF).is_admin
