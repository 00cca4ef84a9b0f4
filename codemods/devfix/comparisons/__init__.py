"""Comparisons of devices: what the sides certainly are, and which comparisons can never hold."""
