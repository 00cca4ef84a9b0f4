"""Results of earlier runs, kept in the user's cache folder: a file is analysed again only where it has to be.

An entry is what `check` says of one file, and everything that it was made of (`devfix.pipeline.depends`): it counts
only where all of that is as it was. Nothing of it is ever written into a file: where there is something to
repair, the file is analysed anew. Whatever is damaged, foreign or not understood is as good as not there.
"""

from devfix.keeping.results import Results, asked_before, kept_results

__all__ = ["Results", "asked_before", "kept_results"]
