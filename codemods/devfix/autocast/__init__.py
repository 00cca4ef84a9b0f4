"""Autocast and GradScaler calls: finding them, and what may be wrong with their device type."""
