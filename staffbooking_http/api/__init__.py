"""The pipeline of the JSON interface: access, limits, input, errors, router."""
