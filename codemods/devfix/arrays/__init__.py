"""What needs the CPU: functions of numpy that convert tensors, lengths of packed sequences, and what they are given."""
