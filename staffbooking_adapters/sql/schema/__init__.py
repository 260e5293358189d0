"""Tables by family, and the upgrade that creates them."""
