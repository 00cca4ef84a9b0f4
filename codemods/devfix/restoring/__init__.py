"""State that is made beside a module before the module is moved: optimizer state, averaged weights."""
