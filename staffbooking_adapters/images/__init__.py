"""Uploaded files: images are re-encoded with Pillow, PDFs are checked."""

__all__ = ["processor"]
