"""What libraries do to devices, as data: the `.model` files of this folder say what their rows mean."""
