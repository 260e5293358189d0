"""The content filter: blocked terms and contact details in messages, in any spelling."""

__all__ = ["filter"]
