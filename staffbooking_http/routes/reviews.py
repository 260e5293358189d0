"""Reviews: the parties of a completed booking review each other (CONTRACT 5)."""

from staffbooking_adapters import codec
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.companions.reviews import Review
from staffbooking_core.inputs import RespondToReview, SubmitReview
from staffbooking_core.representations.companions import ReviewRecord, review_record
from staffbooking_core.representations.json_types import AverageRating, Success
from staffbooking_core.usecases.companions import reviews
from staffbooking_http.api.access import ApiKeyOrSessionAccess, SessionAccess, require_staff
from staffbooking_http.api.endpoint import Call, Reply, endpoint
from staffbooking_http.api.query_string import ListReviews
from staffbooking_http.api.response_schemas import (
    reply_schema,
)

_REVIEW_REPLY_SCHEMA = reply_schema("ReviewReply", success=Success, review=ReviewRecord)


def _review_reply(review: Review, status: int) -> Reply:
    return Reply(status, codec.encode({"success": True, "review": review_record(review)}))


# Submitting -----------------------------------------------------------------------------


async def _check_booking(call: Call) -> Reply:
    await reviews.authorize(call.ports, call.actor, call.path_id("Booking"))
    return Reply(200)


@endpoint(
    "POST",
    "/reviews/booking/{id}",
    SessionAccess(),
    operation_id="createReview",
    summary="Review the other party of a completed booking",
    description="One review by each party; a blank comment counts as absent.",
    body=SubmitReview,
    status=201,
    check_target=_check_booking,
    response_schema=_REVIEW_REPLY_SCHEMA,
    rule_codes=("wrong_party", "booking_not_completed", "already_reviewed"),
    not_found_name="Booking",
)
async def submit_review(call: Call) -> Reply:
    booking_id = call.path_id("Booking")
    return _review_reply(
        await reviews.submit_review(call.ports, call.actor, booking_id, call.parsed_input), 201
    )


# Reading --------------------------------------------------------------------------------


async def _reviews_reply(call: Call, page: int, limit: int) -> Reply:
    found, ratings = await reviews.list_reviews_of(call.ports, call.path_id("User"), page, limit)
    answer = {
        "reviews": [review_record(review) for review in found],
        "rating_avg": ratings.rating_avg,
        "total_reviews": ratings.total_reviews,
        "page": page,
        "limit": limit,
    }
    return Reply(200, codec.encode(answer))


async def _first_review_reply(call: Call) -> Reply:
    return await _reviews_reply(call, 1, 1)


@endpoint(
    "GET",
    "/reviews/user/{id}",
    ApiKeyOrSessionAccess(Permission.READ),
    operation_id="listUserReviews",
    summary="List the reviews of a user",
    description="The newest first, with the aggregates of all reviews.",
    query=ListReviews,
    check_target=_first_review_reply,
    response_schema=reply_schema(
        "UserReviews",
        reviews=list[ReviewRecord],
        rating_avg=AverageRating,
        total_reviews=int,
        page=int,
        limit=int,
    ),
    not_found_name="User",
)
async def list_user_reviews(call: Call) -> Reply:
    return await _reviews_reply(call, call.parsed_input.page, call.parsed_input.limit)


# Responding -----------------------------------------------------------------------------


async def _check_review(call: Call) -> Reply:
    await reviews.authorize_response(call.ports, call.actor, call.path_id("Review"))
    return Reply(200)


@endpoint(
    "POST",
    "/reviews/{id}/respond",
    SessionAccess(check_user=require_staff),
    operation_id="respondToReview",
    summary="Respond to a review of yourself",
    description="One response per review, by the reviewed staff member.",
    body=RespondToReview,
    check_target=_check_review,
    response_schema=_REVIEW_REPLY_SCHEMA,
    rule_codes=("staff_only", "wrong_party", "already_responded"),
    not_found_name="Review",
)
async def respond_to_review(call: Call) -> Reply:
    review_id = call.path_id("Review")
    return _review_reply(
        await reviews.respond_to_review(call.ports, call.actor, review_id, call.parsed_input), 200
    )
