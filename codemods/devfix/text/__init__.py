"""Texts and their trees: positions, names, statements, patterns of paths."""
