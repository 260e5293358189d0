"""Fixed windows, and parsing of rate limits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from staffbooking_core.domain.shared.rate_limits import (
    RateLimit,
    RateLimitDecision,
    RateLimits,
    RateLimitWindow,
    decide,
    parse_rate_limits,
    peek,
    record_hits,
)

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
UNIX = 1_777_636_800
SECOND = timedelta(seconds=1)
RULE = RateLimit("bookings", 3, timedelta(minutes=1))


def hits(*times):
    """The decisions of hits at these seconds after NOW."""
    window, verdicts = None, []
    for seconds in times:
        window, answer = record_hits(window, NOW + seconds * SECOND, RULE)
        verdicts.append(answer)
    return verdicts


def test_the_first_hit_opens_a_window():
    """A window ends its full length after its first hit."""
    window, answer = record_hits(None, NOW, RULE)
    assert window == RateLimitWindow(1, NOW + timedelta(minutes=1))
    assert answer == RateLimitDecision(
        limit=3, remaining=2, reset=UNIX + 60, allowed=True, retry_after=0
    )


def test_the_last_allowed_hit_leaves_nothing():
    """The hit that reaches the limit is allowed, with 0 remaining."""
    assert hits(0, 1, 2)[-1] == RateLimitDecision(3, 0, UNIX + 60, allowed=True, retry_after=0)


def test_the_hit_after_the_limit_is_refused():
    """The hit above the limit is refused until the window ends, in whole seconds."""
    assert hits(0, 1, 2, 3)[-1] == RateLimitDecision(3, 0, UNIX + 60, allowed=False, retry_after=57)


def test_refused_hits_do_not_move_the_end():
    """Refused hits do not extend the window."""
    assert [answer.reset for answer in hits(*range(60))] == [UNIX + 60] * 60


def test_a_window_ends_at_its_reset():
    """A hit exactly at the reset is the first of the next window."""
    answer = hits(0, 0, 0, 0, 60)[-1]
    assert (answer.allowed, answer.remaining, answer.reset) == (True, 2, UNIX + 120)


def test_windows_are_not_aligned_to_the_clock():
    """The next window starts with its own first hit, not at the end of the last."""
    assert hits(0, 100)[-1].reset == UNIX + 160


def test_several_hits_count_together():
    """A batch is counted at once, and gets the decision of its last hit."""
    window, answer = record_hits(RateLimitWindow(1, NOW + SECOND), NOW, RULE, hits=3)
    assert (window.count, answer.allowed, answer.retry_after) == (4, False, 1)


def test_fractions_are_rounded_up():
    """`reset` and `retry_after` never end before the window."""
    resets_at = NOW + timedelta(seconds=2, microseconds=1)
    answer = decide(RULE, 4, resets_at, NOW)
    assert (answer.reset, answer.retry_after) == (UNIX + 3, 3)


def test_a_refused_hit_waits_at_least_a_second():
    """Even where the store's window has just ended, `retry_after` is not 0."""
    assert decide(RULE, 4, NOW, NOW).retry_after == 1


@given(st.integers(1, 20), st.integers(1, 50), st.lists(st.integers(0, 30), max_size=60))
def test_no_window_lets_more_through_than_its_limit(limit, seconds, gaps):
    """Exactly the first `limit` hits of each window are allowed."""
    rule = RateLimit("any", limit, seconds * SECOND)
    window, now, passed = RateLimitWindow(0, NOW), NOW, 0
    for gap in gaps:
        now += gap * SECOND
        passed = passed if now < window.resets_at else 0
        window, answer = record_hits(window, now, rule)
        passed += answer.allowed
        assert answer.allowed == (window.count <= limit)
        assert passed == min(window.count, limit)
        assert answer.remaining == limit - passed


def test_looking_tells_what_is_left():
    """A peek at a running window counts nothing."""
    window, _ = record_hits(None, NOW, RULE)
    assert peek(window, NOW, RULE) == RateLimitDecision(
        3, 2, UNIX + 60, allowed=True, retry_after=0
    )


def test_looking_at_a_spent_window_says_when_to_come_back():
    """A peek at an exhausted window is a refusal."""
    window, _ = record_hits(None, NOW, RULE, hits=3)
    assert peek(window, NOW, RULE) == RateLimitDecision(
        3, 0, UNIX + 60, allowed=False, retry_after=60
    )


@pytest.mark.parametrize("window", [None, RateLimitWindow(9, NOW)])
def test_looking_where_no_window_runs_shows_a_fresh_one(window):
    """A peek without a running window has the whole limit."""
    assert peek(window, NOW, RULE) == RateLimitDecision(
        3, 3, UNIX + 60, allowed=True, retry_after=0
    )


@pytest.mark.parametrize("limit", [0, -1, 1_000_000_001])
def test_a_rule_has_a_sane_limit(limit):
    """A limit of 0, or above the maximum, is refused."""
    with pytest.raises(ValueError, match="a limit is from 1"):
        RateLimit("any", limit, SECOND)


@pytest.mark.parametrize("window", [timedelta(0), -SECOND, timedelta(seconds=1.5)])
def test_a_rule_has_a_window_of_whole_seconds(window):
    """A window below a second, or with a fraction, is refused."""
    with pytest.raises(ValueError, match="a window is at least 1s"):
        RateLimit("any", 1, window)


def test_the_defaults_are_the_published_limits():
    """The contract's text and an empty one both give the defaults."""
    text = "general=1000/1h,webhooks=30/15m,bookings=10/1h,contact=5/1h,channel=100/60s"
    assert parse_rate_limits(text) == parse_rate_limits("") == RateLimits()


def test_a_text_changes_only_what_it_names():
    """Limits that the text does not name keep their defaults; a user's limit on the channel is
    three times that of a connection."""
    limits = parse_rate_limits(" channel=7/5s , general=50000/90m ")
    assert limits == RateLimits(
        channel=RateLimit("channel", 7, timedelta(seconds=5)),
        channel_user=RateLimit("channel_user", 21, timedelta(seconds=5)),
        general=RateLimit("general", 50_000, timedelta(minutes=90)),
    )


@pytest.mark.parametrize(
    "part",
    [
        "generall=1/1h",
        "login_account=1/1h",
        "general",
        "general=",
        "general=0/1h",
        "general=-5/1h",
        "general=1.5/1h",
        "general=10",
        "general=10/",
        "general=10/0s",
        "general=10/1d",
        "general=10/1",
        "general=9999999999/1h",
        "general=10/999999999h",
        "general=\u0663/1h",
        "webhooks=4/1h",
    ],
)
def test_a_bad_part_is_named(part):
    """Unknown and repeated names and invalid figures are refused in one line that quotes the
    part."""
    with pytest.raises(ValueError, match=r"^'[^\n]*$") as caught:
        parse_rate_limits(f"webhooks=3/1h,{part}")
    assert repr(part) in str(caught.value)
