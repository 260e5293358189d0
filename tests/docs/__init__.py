"""The pages that show code are run."""
