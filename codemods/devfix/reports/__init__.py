"""What came of a run, as plain data."""
