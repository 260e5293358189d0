"""The adapters: they do I/O and decide nothing; `wiring` joins them."""
