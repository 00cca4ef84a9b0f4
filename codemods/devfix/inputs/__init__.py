"""What `move-inputs` is made of: inputs on the wrong device, and the edits that move them."""
