"""Transfer functions: what each kind of node does to the state. Each module stands on those before it."""
