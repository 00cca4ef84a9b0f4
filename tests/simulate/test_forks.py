"""Runs that are forked from one process are as processes of their own."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from devfix.simulate.forks import Forks
from devfix.simulate.supervise import Ended
from devfix.simulate.trial import Copies

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there are no forks")
# What a process is made of; it is printed, and the same in a fork and in a process of its own.
SEEN = """
import os, sys
def where(number):
    import torch
    return number, "left" in sys.modules, os.getcwd(), torch.ones(1).item()
if __name__ == "__main__":
    print(sorted(name for name in sys.modules if not name.startswith("devfix")))
    import gc, signal, warnings
    print(__file__, __spec__, __builtins__.__name__, sorted(globals()), sys.argv, sys.orig_argv, sys.path)
    of_the_run = os.environ.pop("DEVFIX_SIMULATE_REPORTS"), os.environ.pop("TMPDIR")
    print(os.getcwd(), sorted(os.environ.items()), sys.flags, warnings.filters, gc.isenabled(), gc.get_threshold())
    os.environ["DEVFIX_SIMULATE_REPORTS"], os.environ["TMPDIR"] = of_the_run
    print(sys.getrecursionlimit(), sys._getframe().f_back, [type(one).__name__ for one in sys.path_hooks])
    print([signal.getsignal(one) for one in sorted(signal.valid_signals())], signal.pthread_sigmask(0, []))
    for one in (sys.stdin, sys.stdout, sys.stderr):
        print(one.encoding, one.errors, one.line_buffering, one.isatty(), one.seekable(), one.name)
    print(os.readlink("/proc/self/fd/0"), sys.stdin.read(), [one for one in os.listdir("/proc/self/fd") if one > "3"])
    print(os.getsid(0) == os.getpid() == os.getpgid(0), os.umask(0o22))
    import resource, multiprocessing.process, tempfile, threading, random
    print([resource.getrlimit(one) for one in range(15)], multiprocessing.process.ORIGINAL_DIR)
    print(threading.active_count(), threading.main_thread() is threading.current_thread(), len(tempfile.gettempdir()))
    import beside, torch, numpy
    print(beside.FACTOR, torch.__spec__.name, torch.cuda.device_count(), len(sys.meta_path), torch.get_num_threads())
    print(torch.rand(2).tolist(), random.random(), numpy.random.rand(), torch.initial_seed(), torch.is_grad_enabled())
    print(sorted(name for name in sys.modules if not name.startswith("devfix")))
    torch.set_default_dtype(torch.float64)
    sys.modules["left"] = os.environ["LEFT"] = "left"
    x = torch.ones(300, 300, device="cuda" if torch.cuda.is_available() else "cpu", requires_grad=True)
    (x @ x).sum().backward()
    print(x.grad.sum().item(), flush=True)
    for kind in ("fork", "spawn")[: 1 + torch.cuda.device_count()]:
        with multiprocessing.get_context(kind).Pool(1) as pool:
            print(pool.map(where, [1, 2]), flush=True)
    import atexit
    atexit.register(print, "at the end")
    threading.Thread(target=lambda: print("a thread, to its end")).start()
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("forks") / "repository"
    root.mkdir()
    return root


@pytest.fixture(scope="module")
def forks(root: Path) -> Iterator[Forks]:
    with Forks() as made:
        yield made
        assert not made.problem


def ended(
    root: Path, program: str, forks: Forks | None, *arguments: str, seconds: float = 300.0, **named: bool
) -> Ended:
    (root / "train.py").write_text(program)
    copies = Copies(str(root), ".", str(root.parent), seconds, seed="0", forks=forks)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(
            "PYTEST_CURRENT_TEST", raising=False
        )  # another environment in each test would be a reason for no fork
        done = copies.run([sys.executable, "train.py", *arguments], {}, 1, **named)
    if "build for GPUs" in done.unchecked:
        pytest.skip(done.unchecked)
    return done


def test_a_fork_is_as_a_process_of_its_own(forks: Forks, root: Path) -> None:
    (root / "beside.py").write_text("FACTOR = 3.0\n")
    for cpu in (True, False):
        own = ended(root, SEEN, None, "--some", cpu=cpu)
        assert own.code == 0 and "at the end" in own.output and "LEFT" not in own.output, own.output
        forked = ended(root, SEEN, forks, "--some", cpu=cpu)
        assert forked.output.splitlines() == own.output.splitlines()
        assert (forked.code, forked.main.place, forked.main.files) == (0, own.main.place, own.main.files)
    assert "--other" in ended(root, "import sys\nprint(sys.argv)\n", forks, "--other", "1").output
    assert forks.started  # they were forked


ENDS = {
    "a file that only Python flushes": "import torch\nkept = open('kept.txt', 'w')\nkept.write('it is')\n",
    "SystemExit('a text')": "raise SystemExit('a text')\n",
    "SystemExit(7)": "import sys\nsys.exit(7)\n",
    "KeyboardInterrupt": "raise KeyboardInterrupt\n",
    "an error": "import torch\ndef f():\n    torch.ones(2, device='cuda') + torch.ones(2)\nf()\n",
    "an error without torch": "def f():\n    return 1 / 0\nf()\n",
    "a syntax error": "x = = 1\n",
    "os._exit": "import os\nprint(1, flush=True)\nos._exit(3)\n",
    "a crash": "import os\nos.abort()\n",
    "killed": "import os, torch\nos.kill(os.getpid(), 9)\n",
    "too much memory": "data = bytearray(64 << 30)\n",
    "a write elsewhere": "open('/var/tmp/devfix-test', 'w')\n",
    "a warning": "import warnings\nwarnings.warn('of nobody', stacklevel=9)\n",
    "an error in a hook": "import sys\nsys.excepthook = lambda *three: print(three)\n1 / 0\n",
}


def test_ends(forks: Forks, root: Path) -> None:
    """Exit codes, signals, tracebacks, limits."""
    for title, program in ENDS.items():
        own, forked = ended(root, program, None), ended(root, program, forks)
        if "file" in title:
            assert (root.parent / "copy" / "repository" / "kept.txt").read_text() == "it is"
        address = str.maketrans("", "", "0123456789abcdefx") if "hook" in title else {}
        assert forked.output.translate(address) == own.output.translate(address), title
        assert (forked.code, forked.unchecked) == (own.code, own.unchecked), title
        assert [*forked.errors()] == [*own.errors()], title
        assert not os.path.exists("/var/tmp/devfix-test")


def test_too_long(forks: Forks, root: Path) -> None:
    """What it has started ends with it, and the next run is a fork again."""
    program = (
        "import subprocess, time\n"
        "print(subprocess.Popen(['sleep', '600']).pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    done = ended(root, program, forks, seconds=3.0)
    assert (done.code, done.unchecked) == (None, "it took too long")
    state = Path(f"/proc/{int(done.output)}/status")
    pause = threading.Event()
    while state.exists() and "State:\tZ" not in state.read_text():
        pause.wait(0.05)
    assert ended(root, "print(1)\n", forks).output == "1\n"


@pytest.mark.parametrize(
    "name, program, printed, why",
    [
        ("numpy/__init__.py", "import torch, numpy\nprint(numpy.OWN)\n", "no attribute", "a module numpy of its own"),
        ("platform.py", "import platform\nprint(platform.OWN)\n", "its own", "a module platform of its own"),
        ("beside.py", "import os\nos.environ['OMP_NUM_THREADS'] = '3'\nimport torch\nprint(torch.get_num_threads())\n",
         "", "changes the environment"),
    ],
)  # fmt: skip
def test_what_needs_a_process_of_its_own(
    name: str, program: str, printed: str, why: str, forks: Forks, root: Path
) -> None:
    """It is noticed, and the run is done again in one."""
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text("OWN = 'its own'\n")
    of_this_test = replace(forks)
    try:
        done = ended(root, program, of_this_test)
        assert of_this_test.started and why in of_this_test.problem
        assert (printed or ended(root, program, None).output) in done.output
    finally:
        (root / name).unlink()


def test_what_optimizers_import_the_next_fork_has(forks: Forks, root: Path) -> None:
    program = (
        "import os, sys, torch\n"
        "print('torch._dynamo' in sys.modules)\n"
        "torch.optim.SGD([torch.ones(1, device='cuda')], 0.1)\n"
        "os.environ.pop('TORCHINDUCTOR_CACHE_DIR', None)\n"
        "print(sorted(sys.modules), sorted(os.environ), os.listdir('/proc/self/task') == [str(os.getpid())])\n"
    )
    found, *rest = zip(*(ended(root, program, forks).output.splitlines() for _ in range(3)), strict=True)
    assert found == ("False", "False", "True") and all(len({*line}) == 1 for line in rest)


def test_another_environment_or_program(forks: Forks, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is run in a fork of this one."""
    program = (
        "import os, torch\nprint(os.environ.get('OMP_NUM_THREADS'), torch.get_num_threads(), os.getppid())\n"
    )
    first = ended(root, program, forks)
    parent = first.output.split()[-1]
    assert parent != str(os.getpid())
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert ended(root, program, forks).output == f"2 2 {os.getpid()}\n"
    monkeypatch.undo()
    assert ended(root, program, forks).output.split()[-1] == parent
    (root / "other.py").write_text("import os\nprint(os.getppid())\n")
    copies = Copies(str(root), ".", str(root.parent), forks=forks)
    for words in (["other.py"], ["-m", "other"], ["-S", "other.py"], ["-c", "import other"]):
        assert copies.run([sys.executable, *words], {}, 1).output == f"{os.getpid()}\n"
