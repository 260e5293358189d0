"""Published records: the JSON of the interface, of events and of the channel."""
