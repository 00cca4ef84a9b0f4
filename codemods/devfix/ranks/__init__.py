"""Which GPU a thing is on, by number, and which are visible: what `one-device` needs beside its own file."""
