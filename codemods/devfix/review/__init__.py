"""What a person or a machine reads. Every renderer is a function of a report."""
