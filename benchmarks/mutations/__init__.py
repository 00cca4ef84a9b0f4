"""Device bugs planted in programs that are right: one text edit each, placed by the AST."""
