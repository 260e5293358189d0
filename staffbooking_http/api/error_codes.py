"""The codes of errors, with their statuses and meanings (SPECIFICATION 7, CONTRACT 1).

Figures of the policy are in braces. Tests hold the table to the errors that the source raises.
"""

ERROR_CODES_BY_STATUS: dict[int, dict[str, str]] = {
    400: {
        "malformed_request": "the request is not HTTP",
        "malformed_json": "the body is not a JSON object, or has a key twice",
        "missing_field": "required fields are missing or null: `errors` lists them all",
        "body_timeout": "the body took too long to arrive: 10 seconds, 60 with a file",
        "malformed_form": "the body is not a form of the declared type",
        "bad_signature": "the signature of a processor event is wrong or too old",
        "bad_handshake": "the Socket.IO request is not Engine.IO 4, or is out of sequence",
        "if_match_invalid": "If-Match is neither `*` nor a list of entity tags",
        "idempotency_mismatch": "the Idempotency-Key, or the `client_message_id`, was used for "
        "another request",
        "idempotency_key_invalid": "Idempotency-Key is not 1 to 255 printable ASCII characters",
        # Bookings
        "companion_unavailable": "the companion cannot be booked then; `reason` says why",
        "amount_too_small": "the total is below what the payment processor accepts",
        "rebooking_not_available": "there is no priority rebooking to use, or it was used",
        "booking_not_pending": "the request was answered, cancelled or has expired",
        "booking_not_accepted": "the booking is not accepted, or is paid already",
        "booking_not_paid": "the booking is not paid, or is over",
        "booking_not_completed": "only a completed booking can be reviewed",
        "booking_not_cancellable": "the booking is over, or its event has begun",
        "party_disabled": "the account of the customer is disabled",
        "event_started": "the event has begun, or the time to pay has passed",
        "event_not_started": "the event has not begun",
        "event_not_ended": "the event has not ended",
        "check_in_not_open": "check-in opens shortly before the start and closes at the end",
        "already_checked_in": "the staff member has checked in: it is no no-show",
        "no_show_not_open": "it is too early or too late to report a no-show",
        "quote_invalid": "the quote has lapsed, or is for another cancellation",
        # Disputes
        "booking_not_disputable": "only a paid or completed booking can be disputed",
        "booking_not_disputed": "the booking has no open dispute",
        "payout_released": "the payout was sent: it is too late for a dispute",
        "chargeback_open": "the card issuer decides this dispute",
        "rebooking_used": "the priority rebooking of this dispute was used",
        "split_out_of_range": "a split is more than 0 and at most the price that is held",
        "too_many_statements": "the dispute has as many statements as it may have",
        "too_many_files": "the booking has as many files of yours as it may have",
        # Reviews, messages, webhooks, keys and accounts
        "already_reviewed": "you have reviewed this booking",
        "already_responded": "the review has a response",
        "message_to_oneself": "nobody sends messages to themselves",
        "too_many_webhooks": "you have as many webhook endpoints as a user may have",
        "no_rotation": "no new secret waits to be activated",
        "unknown_event": "`after` names no event of your feed: start at its beginning",
        "too_many_keys": "you have as many active API keys as an account may have",
        "token_invalid": "the link is wrong, was used, or has expired",
        "already_verified": "the address is confirmed",
        "open_bookings": "bookings are open, or money is owed for them",
        # Staff members
        "too_many_portfolio_items": "your portfolio has as many items as it may have",
        "too_many_images": "you have as many images as you may keep",
        "image_in_use": "the profile or the portfolio shows the image",
        "payout_account_refused": "the payment processor refused the account",
        # Operators
        "profile_incomplete": "the profile lacks what an approval needs: see its `missing`",
        "bookings_ahead": "accepted or paid bookings are ahead: `bookings` says what becomes of "
        "them",
        "own_account": "nobody can disable their own account",
        "payout_not_pending": "no payout is waiting to be sent",
        "payout_not_on_hold": "the payout is not on hold",
        "payout_not_failed": "the payout has not failed",
        "no_failed_refund": "no refund of the booking has failed",
        # The sandbox
        "clock_backwards": "the sandbox's clock only runs forward",
        "not_paid": "there is no payment to charge back",
        "already_charged_back": "the payment was charged back before",
        "chargeback_decided": "the chargeback was decided before",
        "nothing_left": "all of the payment was refunded",
    },
    401: {
        "unauthenticated": "no credentials, or a session that has ended",
        "invalid_api_key": "the API key is malformed, unknown, expired or revoked",
        "session_required": "an API key was sent where a session is required",
        "bad_credentials": "the e-mail, the password or the current password is wrong",
    },
    403: {
        "permission_required": "the API key lacks the permission",
        "subscription_required": "the owner of the API key has no active enterprise subscription",
        "csrf_failed": "X-CSRF-Token is missing or wrong",
        "foreign_origin": "a page of another origin tried to sign in or to open the channel",
        "wrong_party": "only the other party of the booking may do this",
        "no_shared_booking": "only the customer and the companion of a booking write to each other",
        "conversation_left": "a companion who is no longer booked can read the conversation and "
        "not write; to an erased person nobody can write",
        "customers_only": "only customers book for themselves",
        "admins_only": "only admins see and decide what operators do",
        "staff_only": "only staff members have a profile and payouts, and respond to reviews",
    },
    404: {"not_found": "the path or resource does not exist, or belongs to another user"},
    405: {
        "method_not_allowed": "the path has no such method; the Allow header lists its methods",
    },
    412: {
        "version_mismatch": "the resource has another version than If-Match names; nothing was "
        "changed",
    },
    413: {
        "body_too_large": "the body is over 64 KiB, an event of the processor over 256 KiB, an "
        "image over {max_image_bytes}, a calendar over {max_calendar_bytes}",
    },
    415: {
        "unsupported_media_type": "the body is not declared as JSON in UTF-8, an upload not as "
        "multipart/form-data, a calendar not as text/calendar in UTF-8, or the body has a "
        "Content-Encoding",
    },
    422: {
        "invalid_field": "fields of the wrong type, bounds, format or meaning: `errors` lists "
        "them all",
        "content_blocked": "a message with words that are not allowed, or with contact or "
        "payment details before the booking is paid",
    },
    426: {"upgrade_required": "the path accepts WebSockets only"},
    429: {"rate_limited": "the rate limit is exceeded; `retry_after` is the wait in seconds"},
    500: {
        "processor_unavailable": "the payment processor is temporarily unavailable; try again",
        "internal": "an internal error; the log has the details under `request_id`",
    },
    503: {
        "unavailable": "the service is temporarily unavailable: see Retry-After",
        "overloaded": "more requests wait than can be served; nothing was done: see Retry-After",
    },
}
"""The meaning of each code, by the status of the responses that have it."""

ERROR_CODE_DESCRIPTIONS = {
    code: text for codes in ERROR_CODES_BY_STATUS.values() for code, text in codes.items()
}
"""The meaning of each code."""

STATUSES_BY_CODE = {
    code: status for status, codes in ERROR_CODES_BY_STATUS.items() for code in codes
}
"""The status of the responses with each code."""
