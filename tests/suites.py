"""`python -m pytest` for suites of simulated devices, in forks of a process that has imported torch: see `forks.py`."""

from __future__ import annotations

import atexit
import os
import sys

from devfix.simulate.preloaded import Before, put_by
from forked import serve

STALE = 99  # the exit code of a fork that has to be a process of its own


def main() -> None:
    import pytest

    before = Before.now()
    import torch  # noqa: F401

    serve()
    put_by(before, lambda why: os._exit(STALE))
    sys.path[0] = os.getcwd()
    code = pytest.console_main()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code)  # to take torch apart would take as long as a suite


if __name__ == "__main__":
    main()
