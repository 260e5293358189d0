"""End-to-end tests of webhooks: the sender's safety, and that no event is lost."""
