"""Values that several families use: money, durations, rate limits."""
