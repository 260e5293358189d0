"""Messages, the real-time channel, e-mail notifications for offline users."""
