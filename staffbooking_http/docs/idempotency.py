"""The Idempotency-Key header in the OpenAPI document."""

from typing import Any

from staffbooking_http.api.idempotency import MAX_KEY_LENGTH

KEY_PARAMETER: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": (
        "Makes the call safe to repeat: the same key and body get the first response again, with "
        "`Idempotent-Replay: true`. 401, 403, 412, 429 and 5xx are not stored. Another path or "
        "body under the key is 400 `idempotency_mismatch`. Each caller has keys of its own."
    ),
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH},
}

REPLAY_HEADERS: dict[str, Any] = {
    "Idempotent-Replay": {
        "required": False,
        "description": "`true` on a response that was stored under an Idempotency-Key",
        "schema": {"type": "string", "const": "true"},
    }
}
