"""Uploaded images made anew by Pillow."""
