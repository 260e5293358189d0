"""A booking, its lifecycle table, and the transitions and effects that follow from it."""
