"""Fixes for what the engine finds: which links of a history can be changed, and how that is written."""
