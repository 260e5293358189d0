"""The adapters implement the core's ports; `wiring` composes them."""
