"""Values shared by the domain packages: money, durations, rate limits."""
