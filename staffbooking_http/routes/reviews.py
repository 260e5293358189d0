"""Reviews: the parties of a completed booking review each other (CONTRACT 5)."""

from staffbooking_adapters import codec
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.companions.reviews import Review
from staffbooking_core.inputs import RespondToReview, SubmitReview
from staffbooking_core.representations.records import review_record
from staffbooking_core.usecases.companions import reviews
from staffbooking_http.api.access import WithEither, WithSession, staff_only
from staffbooking_http.api.endpoint import Call, Reply, endpoint
from staffbooking_http.api.query_string import ListReviews
from staffbooking_http.api.response_schemas import RATING_AVG, SUCCESS, WHOLE, items, ref, shape

_DONE = shape({"success": SUCCESS, "review": ref("Review")})


def _done(review: Review, status: int) -> Reply:
    return Reply(status, codec.encode({"success": True, "review": review_record(review)}))


# Submitting -----------------------------------------------------------------------------


async def _find_booking(call: Call) -> Reply:
    await reviews.authorize(call.ports, call.actor, call.path_id("Booking"))
    return Reply(200)


@endpoint(
    "POST",
    "/reviews/booking/{id}",
    WithSession(),
    summary="Review the other party of a completed booking",
    description="Once for the customer and once for the companion; a blank comment is none.",
    body=SubmitReview,
    status=201,
    find=_find_booking,
    answer=_DONE,
    codes=("booking_not_completed", "already_reviewed"),
    not_found="Booking",
)
async def submit(call: Call) -> Reply:
    booking_id = call.path_id("Booking")
    return _done(await reviews.submit(call.ports, call.actor, booking_id, call.given), 201)


# Reading --------------------------------------------------------------------------------


async def _list(call: Call, page: int, limit: int) -> Reply:
    found, ratings = await reviews.of_user(call.ports, call.path_id("User"), page, limit)
    answer = {
        "reviews": [review_record(review) for review in found],
        "rating_avg": ratings.rating_avg,
        "total_reviews": ratings.total_reviews,
        "page": page,
        "limit": limit,
    }
    return Reply(200, codec.encode(answer))


async def _find_user(call: Call) -> Reply:
    return await _list(call, 1, 1)


@endpoint(
    "GET",
    "/reviews/user/{id}",
    WithEither(Permission.READ),
    summary="List the reviews of a user",
    description="The newest first, with what all of them come to.",
    query=ListReviews,
    find=_find_user,
    answer=shape(
        {
            "reviews": items(ref("Review")),
            "rating_avg": RATING_AVG,
            "total_reviews": WHOLE,
            "page": WHOLE,
            "limit": WHOLE,
        }
    ),
    not_found="User",
)
async def list_of_user(call: Call) -> Reply:
    return await _list(call, call.given.page, call.given.limit)


# Responding -----------------------------------------------------------------------------


async def _find_review(call: Call) -> Reply:
    await reviews.authorize_response(call.ports, call.actor, call.path_id("Review"))
    return Reply(200)


@endpoint(
    "POST",
    "/reviews/{id}/respond",
    WithSession(permit=staff_only),
    summary="Respond to a review of yourself",
    description="Once, and for staff members only.",
    body=RespondToReview,
    find=_find_review,
    answer=_DONE,
    codes=("already_responded",),
    not_found="Review",
)
async def respond(call: Call) -> Reply:
    review_id = call.path_id("Review")
    return _done(await reviews.respond(call.ports, call.actor, review_id, call.given), 200)
