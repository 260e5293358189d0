"""The fake processor's documents in memory."""

__all__ = ["fake_documents"]
