"""What every adapter of a port has to keep, said once and run over all of them."""
