"""Published records: the JSON of the API, of events and of the real-time channel."""
