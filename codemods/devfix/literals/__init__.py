"""Hard-coded accelerators: where they stand, and the device expression that belongs there."""
