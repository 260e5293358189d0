"""ETag and If-Match of bookings (CONTRACT 10, RFC 9110): the ETag is the quoted version."""

import re

from staffbooking_http.api.endpoint import Call, Header
from staffbooking_http.api.errors import HttpError

_ENTITY_TAG = rb'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"'
_TAG_LIST = re.compile(
    rb"[ \t]*(?:%b)?(?:[ \t]*,[ \t]*(?:%b)?)*[ \t]*" % (_ENTITY_TAG, _ENTITY_TAG)
)
_FIND_TAG = re.compile(_ENTITY_TAG)
_VERSION_TAG = re.compile(rb'"([1-9][0-9]{0,18})"')


def version_etag(version: int) -> tuple[Header, ...]:
    """The ETag header of a version."""
    return ((b"etag", b'"%d"' % version),)


def allowed_versions(call: Call) -> frozenset[int] | None:
    """The versions that If-Match names; None without the header, and for `*`.

    The comparison is the strong one: a weak tag names no version, nor does one that is not ours.
    Raises HttpError `if_match_invalid` for what is neither `*` nor a list of entity tags.
    """
    if not (values := call.headers(b"if-match")):
        return None
    text = b",".join(values)
    if text.strip() == b"*":
        return None
    tags = _FIND_TAG.findall(text)
    if not tags or not _TAG_LIST.fullmatch(text):
        message = 'If-Match must be * or a list of quoted versions, like "3"'
        raise HttpError(400, "if_match_invalid", message)
    versions = map(_VERSION_TAG.fullmatch, tags)
    return frozenset(int(version[1]) for version in versions if version is not None)
