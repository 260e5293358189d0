"""Files that the parties of a booking upload for its disputes (CONTRACT 10).

They are kept apart from public images: only the parties, whoever booked it, and admins read them.
"""

from __future__ import annotations

from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.bookings.disputes import (
    DISPUTABLE_STATUSES,
    DisputeFile,
    DisputeFileKind,
)
from staffbooking_core.errors import NotFound, RuleBroken, invalid_field
from staffbooking_core.ports import Ports, Transaction
from staffbooking_core.usecases.bookings.disputes import authorize_party, require_dispute_party
from staffbooking_core.usecases.bookings.parties import require_party
from staffbooking_core.validation import validated, validated_lookup

__all__ = ["get_file", "upload_file"]

_PDF_SIGNATURE = b"%PDF-"
_PDF_MEDIA_TYPES = ("", "application/octet-stream", "application/pdf", "application/x-pdf")


@validated
async def upload_file(
    ports: Ports, actor: Actor, booking_id: int, uploaded: bytes, media_type: str = ""
) -> DisputeFile:
    """Store a file for a dispute of a booking, which need not be open yet: an image, reduced to its
    pixels, or a PDF. `media_type` is the declared type, if any. Nothing is stored where an error is
    raised. Locks the user and the booking.

    Raises NotFound, Forbidden `wrong_party`, InvalidField on `file`, and RuleBroken
    `booking_not_disputable` or `too_many_files`.
    """
    await authorize_party(ports, actor, booking_id)
    content, kind = await _check_content(ports, uploaded, media_type)
    file = DisputeFile(
        id=ports.ids.token(),
        booking_id=booking_id,
        owner_id=actor.user_id,
        kind=kind,
        size=len(content),
        created_at=await ports.clock.business(),
    )

    async def unit(tx: Transaction) -> None:
        user = await tx.accounts.lock_user(actor.user_id)
        if user is None or user.erased_at is not None:
            raise NotFound("User")
        booking, _ = require_dispute_party(actor, await tx.bookings.lock_booking(booking_id))
        if booking.status not in DISPUTABLE_STATUSES:
            raise RuleBroken("booking_not_disputable", "Only a paid booking can be disputed")
        files = await tx.disputes.files_of(booking_id)
        own_count = sum(file.owner_id == actor.user_id for file in files)
        if own_count >= (most := ports.policy.max_dispute_files):
            raise RuleBroken("too_many_files", f"One may upload at most {most} files for a booking")
        await tx.disputes.add_file(file)

    # The file is written first: a file without a row is harmless, a row without a file is not.
    await ports.files.put(file.storage_name, content)
    try:
        await ports.store.run_transaction(unit)
    except (NotFound, RuleBroken):
        await ports.files.remove(file.storage_name)
        raise
    return file


async def _check_content(
    ports: Ports, uploaded: bytes, media_type: str
) -> tuple[bytes, DisputeFileKind]:
    """The content to store, and its kind. Raises InvalidField on `file`."""
    if len(uploaded) > ports.policy.max_image_bytes:
        raise invalid_field("file", f"has more than {ports.policy.max_image_bytes} bytes")
    if uploaded.startswith(_PDF_SIGNATURE):
        await ports.image_processor.check_pdf(uploaded)
        content, kind = uploaded, DisputeFileKind.PDF
        is_as_declared = media_type in _PDF_MEDIA_TYPES
    else:
        picture = await ports.image_processor.process(uploaded)
        content, kind = picture.content, DisputeFileKind(picture.kind.media_type)
        is_as_declared = picture.kind.accepts_media_type(media_type)
    if not is_as_declared:
        raise invalid_field("file", f"is of type {kind}, and was sent as another")
    return content, kind


@validated_lookup("File")
async def get_file(
    ports: Ports, actor: Actor, booking_id: int, file_id: str
) -> tuple[bytes, DisputeFile]:
    """The content of a file of a booking. Raises NotFound, also for a stranger."""
    async with ports.store.read_view() as view:
        require_party(actor, await view.bookings.booking(booking_id))
        files = await view.disputes.files_of(booking_id)
    file = next((file for file in files if file.id == file_id), None)
    content = None if file is None else await ports.files.get(file.storage_name)
    if file is None or content is None:
        raise NotFound("File")
    return content, file
