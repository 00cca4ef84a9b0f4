"""Surgery on modules that were moved: what arrives late, what moves late, what is swapped in."""
