"""Modules that nothing moves: how they are used, and where a move fits (`module-never-moved`)."""
