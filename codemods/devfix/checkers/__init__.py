"""Checkers: what the engine found, worded and ranked as findings of a codemod."""
