"""devfix in an editor, by the Language Server Protocol; needs pygls (`pip install 'devfix[lsp]'`)."""
