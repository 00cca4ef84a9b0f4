"""What a module holds without having registered it: plain tensors, and submodules in plain containers."""
