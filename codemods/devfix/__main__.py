"""`python -m devfix`, without importing anything from the folder it is run in."""

import os
import sys

if __name__ == "__main__":
    # `-m` puts the working directory first, where an analysed repository may have a `click.py`.
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        here = os.getcwd()
    except OSError:  # it is gone; `main` says so
        here = own
    if sys.path and here != own and os.path.abspath(sys.path[0] or os.curdir) == here:
        del sys.path[0]

    from devfix.cli import main

    sys.exit(main())
