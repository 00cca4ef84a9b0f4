"""Tensors made on the default device: where they meet others, and how they are told where to go."""
