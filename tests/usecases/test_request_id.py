"""Work runs under the id of the request that caused it."""

from __future__ import annotations

import pytest

from staffbooking_core.request_id import CURRENT_REQUEST_ID, caused_by_request


def test_work_has_the_id_of_its_request() -> None:
    """The id holds within the block, and in a request that request's own id."""
    with caused_by_request("a"):
        assert CURRENT_REQUEST_ID.get() == "a"
        with caused_by_request("b"):
            assert CURRENT_REQUEST_ID.get() == "a"
    assert CURRENT_REQUEST_ID.get() is None
    with caused_by_request(None):
        assert CURRENT_REQUEST_ID.get() is None


def test_an_error_says_which_request_caused_its_work() -> None:
    """An error that leaves the block has a note with the id, once."""
    with pytest.raises(LookupError) as caught, caused_by_request("a"), caused_by_request("b"):
        raise LookupError
    assert caught.value.__notes__ == ["caused by request a"]
