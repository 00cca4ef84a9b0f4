"""A run, from paths to written files: discovery, one file, all of them, selection, joint fixes, writing."""
