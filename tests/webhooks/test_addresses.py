"""Safe addresses and valid webhook URLs: the corpus and further rules."""

from __future__ import annotations

import socket
from ipaddress import ip_address

import pytest
from hypothesis import given, strategies as st

from staffbooking_core.domain.webhooks.deliveries import MAX_WEBHOOK_URL_LENGTH
from staffbooking_core.domain.webhooks.url_safety import is_safe_address, validate_webhook_url
from tests.webhooks.corpus import (
    ADDRESSES,
    ANSWERS,
    HOSTS,
    PUBLIC,
    REDIRECTS,
    URLS,
    as_url_host,
    count_cases,
)


def url_error(url: str, *, insecure: bool = False) -> str | None:
    """The error of a URL; None if it may be registered."""
    try:
        validate_webhook_url(url, allow_insecure=insecure)
    except ValueError as refused:
        return str(refused)
    return None


def test_the_corpus_is_large() -> None:
    """The corpus has at least 250 vectors to refuse and 25 to accept."""
    assert count_cases(ADDRESSES, HOSTS, URLS, ANSWERS, REDIRECTS) >= 250
    assert count_cases(PUBLIC) >= 25


@pytest.mark.parametrize("group", ADDRESSES)
def test_unsafe_addresses(group: str) -> None:
    """An unsafe address is refused, alone and in a URL."""
    assert list(filter(is_safe_address, ADDRESSES[group])) == []
    errors = {
        url_error(f"https://{as_url_host(address)}:8443/hook") for address in ADDRESSES[group]
    }
    assert errors == {"must lead to a public address"}


@pytest.mark.parametrize("group", HOSTS)
def test_odd_hosts(group: str) -> None:
    """Hosts that are malformed or not public are refused in every spelling."""
    errors = {host: url_error(f"https://{host}/hook") for host in HOSTS[group]}
    assert [host for host, error in errors.items() if error is None] == []


@pytest.mark.parametrize("group", URLS)
def test_odd_urls(group: str) -> None:
    """Malformed and forbidden URLs are refused."""
    assert [url for url in URLS[group] if url_error(url) is None] == []


def test_public_literals() -> None:
    """Public IP addresses may be registered and resolve to themselves."""
    literals = PUBLIC["literals"]
    looked_up = {url: ip_address(validate_webhook_url(url)) for url in literals}
    assert looked_up == {url: ip_address(reached.split()[0]) for url, reached in literals.items()}


def test_public_names() -> None:
    """Public host names may be registered."""
    assert {url: url_error(url) for url in PUBLIC["names"]} == dict.fromkeys(PUBLIC["names"])


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://hooks.bücher.example/", "hooks.xn--bcher-kva.example"),
        ("https://EXAMPLE.com./", "example.com"),
        ("https://[2606:4700:4700:0:0:0:0:1111]:8443/", "2606:4700:4700::1111"),
        ("https://134744072/", "8.8.8.8"),
    ],
)
def test_a_validated_host_is_normalized(url: str, host: str) -> None:
    """A validated host name is lower-case ASCII without a final dot, an address in its usual
    notation."""
    assert validate_webhook_url(url) == host


@pytest.mark.parametrize("address", ["127.0.0.1", "127.255.255.254", "::1"])
def test_loopback_can_be_allowed(address: str) -> None:
    """Loopback is safe if it is allowed."""
    assert is_safe_address(address, allow_loopback=True)


def test_allowing_loopback_allows_nothing_else() -> None:
    """Allowing loopback allows no other address, not even other forms of loopback."""
    safe = {
        a for group in ADDRESSES.values() for a in group if is_safe_address(a, allow_loopback=True)
    }
    assert safe == set(ADDRESSES["loopback"])


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000/hook",
        "https://localhost/",
        "http://hooks.localhost:1/",
        "http://[::1]/",
        "http://2130706433/",
        "http://example.com/",
    ],
)
def test_insecure_urls_can_be_allowed(url: str) -> None:
    """With `allow_insecure`, http and loopback are allowed."""
    assert url_error(url, insecure=True) is None


@pytest.mark.parametrize("host", ["10.0.0.1", "169.254.169.254", "0.0.0.0", "[fd00::1]", "10.1"])
def test_private_urls_are_never_allowed(host: str) -> None:
    """Private addresses are refused also with `allow_insecure`."""
    assert url_error(f"http://{host}/", insecure=True) == "must lead to a public address"


def test_a_text_that_is_no_address_is_unsafe() -> None:
    """A text that is not an address in its usual notation is unsafe."""
    assert not any(map(is_safe_address, ["", "8.8.8", "8.8.8.8/32", "example.com", "0x08080808"]))


def test_the_longest_url() -> None:
    """A URL may have at most 2,048 characters."""
    longest = "https://example.com/".ljust(MAX_WEBHOOK_URL_LENGTH, "x")
    assert url_error(longest) is None
    assert url_error(longest + "x") == "must have at most 2048 characters"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://example.com/", "must be an https URL"),
        ("https://example.com/#a", "must not have a fragment"),
        ("https://a@example.com/", "must not hold a user name or password"),
        ("https://example.com/a b", "must not hold blanks"),
        ("https://example.com:0/", "must have a port of 1 to 65535"),
        ("https://example.com/é", "must have its special characters percent-encoded"),
        ("https://straße.example/", "must have the host's name in ASCII"),
        ("https://a..b/", "must have a host that is a name or an address"),
    ],
)
def test_the_message_names_the_problem(url: str, said: str) -> None:
    """Each kind of invalid URL has its own message."""
    assert (url_error(url) or "").startswith(said)


@st.composite
def spellings(draw: st.DrawFn) -> str:
    """An IPv4 address in a spelling that the C library accepts."""
    value = draw(st.integers(0, 2**32 - 1))
    count = draw(st.integers(1, 4))
    firsts = [value >> 8 * (3 - place) & 255 for place in range(count - 1)]
    parts = [*firsts, value & (256 ** (5 - count) - 1)]
    forms = st.sampled_from(["{}", "0{:o}", "0x{:x}", "0X{:X}", "000{:o}", "0x0{:x}"])
    return ".".join(draw(forms).format(part) for part in parts)


@given(spellings(), st.sampled_from(["", "."]))
def test_spellings_of_addresses_are_read_like_inet_aton(spelling: str, dot: str) -> None:
    """Every spelling of an address is checked as the address it means to the C library."""
    meant = socket.inet_ntoa(socket.inet_aton(spelling))
    url = f"https://{spelling}{dot}/"
    if is_safe_address(meant):
        assert validate_webhook_url(url) == meant
    else:
        assert url_error(url) == "must lead to a public address"


@given(st.text(max_size=60))
def test_any_text_is_accepted_or_refused(text: str) -> None:
    """Any text is accepted or refused with a sentence."""
    for url in (text, f"https://{text}", f"https://example.com{text}", f"https://{text}/"):
        assert (url_error(url) or "must ").startswith("must ")
