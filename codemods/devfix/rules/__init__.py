"""One codemod, one file: its documentation, options, examples and traps included."""
