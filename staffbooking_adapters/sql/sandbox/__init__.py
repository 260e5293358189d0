"""The sandbox clock and the fake processor's documents in SQL."""

__all__ = ["fake_documents"]
