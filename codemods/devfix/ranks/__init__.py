"""Which GPU a thing is on, by number or by process: what `one-device` needs beside its own file."""
