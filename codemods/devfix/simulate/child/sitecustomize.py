"""Python imports this at the start of each process that belongs to a simulated run.

Its folder is the first of PYTHONPATH there (see `processes.py`). It makes `import torch` end with
simulated devices, leaves no trace on `sys.path`, and hands on to the sitecustomize that it hides.
"""

import importlib
import os
import sys


def _start() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or os.curdir) != here]
    root = os.path.dirname(os.path.dirname(os.path.dirname(here)))
    if root not in sys.path:
        sys.path.append(root)  # last: nothing of the program's may be hidden
    serves = "DEVFIX_SIMULATE_FORKS" in os.environ
    try:
        from devfix.simulate.processes import arm

        if serves:
            from devfix.simulate.preloaded import Before

            before = Before.now()
            from devfix.simulate.forks import serve

            serve(before)
            serves = False
        arm()
    except Exception as error:  # an old Python, for instance
        if serves:
            os._exit(1)  # without having run the program
        sys.stderr.write(f"devfix: process {os.getpid()} has no simulated devices: {error}\n")


def _hand_on() -> None:
    own = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")  # the one that this one hides
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", own)


_start()
_hand_on()
