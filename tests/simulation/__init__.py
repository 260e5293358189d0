"""Simulations of the service: random actions, faults and crashes in virtual time."""
