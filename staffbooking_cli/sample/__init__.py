"""The sample marketplace of `staffbooking demo`."""
