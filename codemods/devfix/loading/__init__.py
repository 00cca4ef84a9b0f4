"""Checkpoint loads: which there are, what becomes of what they load, and which device suits it."""
