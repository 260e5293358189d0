"""The fake processor's documents in memory."""
