"""Tests of devices in words and of masked addresses."""

from __future__ import annotations

import pytest

from staffbooking_core.domain.accounts.devices import mask_address, read_user_agent

ENGINE = "AppleWebKit/537.36 (KHTML, like Gecko)"
WEBKIT = "AppleWebKit/605.1.15 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (f"Mozilla/5.0 (X11; Linux x86_64) {ENGINE} Chrome/131.0 Safari/537.36", "Chrome Linux"),
        ("Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:133.0) Firefox/133.0", "Firefox Windows"),
        (
            f"Mozilla/5.0 (Windows NT 10.0) {ENGINE} Chrome/131.0 Safari/537.36 Edg/131.0",
            "Edge Windows",
        ),
        (
            f"Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) {WEBKIT} Version/18.1 "
            "Mobile/15E148 Safari/604.1",
            "Safari iPhone",
        ),
        (
            f"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) {WEBKIT} Version/18.1 Safari/605",
            "Safari Mac",
        ),
        (
            f"Mozilla/5.0 (Linux; Android 14; SM-S918B) {ENGINE} SamsungBrowser/27.0 Chrome/125.0 "
            "Mobile Safari/537.36",
            "Samsung Internet Android",
        ),
        ("curl/8.9.1", "curl None"),
        ("", "None None"),
        ("x" * 100_000 + "Firefox/1", "None None"),
    ],
)
def test_a_device_is_named_in_words(header: str, words: str) -> None:
    """The browser and the system are told from what most headers pretend to be as well."""
    browser, system = read_user_agent(header)
    assert f"{browser} {system}" == words


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("203.0.113.77", "203.0.113.0/24"),
        ("2001:db8:1:2:3::4", "2001:db8:1::/48"),
        ("2001:db8:1:2::/64", "2001:db8:1::/48"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("local", None),
        ("", None),
    ],
)
def test_an_address_is_kept_as_its_network(address: str, network: str | None) -> None:
    """Nobody's own address can be told from what is kept."""
    assert mask_address(address) == network
