"""`python -m devfix.simulate [-n N] SCRIPT [ARGS...]`: run a program on simulated CUDA devices."""

from __future__ import annotations

import argparse
import os
import runpy
import sys


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m devfix.simulate", description="Run a program on simulated CUDA devices."
    )
    parser.add_argument("-n", type=int, default=1, metavar="N", help="number of devices (default: 1)")
    parser.add_argument("script", help="the program")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    options = parser.parse_args()
    if not os.path.isfile(options.script):
        parser.error(f"no such file: {options.script}")
    sys.path[0] = os.path.dirname(os.path.abspath(options.script))

    from devfix.simulate import CannotSimulate, enable

    try:
        enable(options.n)
    except ModuleNotFoundError as error:
        parser.exit(2, f"devfix: {error}; pip install 'devfix[smoke]'\n")
    except (CannotSimulate, ValueError) as error:
        parser.exit(2, f"devfix: cannot simulate devices: {error}\n")
    sys.argv = [options.script, *options.args]
    runpy.run_path(options.script, run_name="__main__")


if __name__ == "__main__":
    main()
