"""From a pasted error message to its cause: what torch says, where it happened, which finding explains it."""
