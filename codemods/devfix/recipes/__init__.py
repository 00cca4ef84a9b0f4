"""HyperPyYAML recipes: a YAML file that says what there is, and the script whose Brain uses it."""
