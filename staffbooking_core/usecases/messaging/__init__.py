"""Messages, the real-time channel, notifications for offline users."""
