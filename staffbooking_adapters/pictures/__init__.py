"""Uploaded images made anew by Pillow."""

__all__ = ["threads"]
