"""What `numpy-of-device` knows of numpy: which functions convert tensors, and what it can be sure to be given."""
