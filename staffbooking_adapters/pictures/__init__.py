"""Re-encoding of uploaded images with Pillow."""

__all__ = ["threads"]
