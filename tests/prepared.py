"""devfix in forks of a process that has imported what its commands need.

`prepared.py listen PATH` is for the executable of `forked.Command`, and `prepared.py MODULE ...` for a `forked.Server`,
with modules to import as well.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import signal
import socket
import sys
from contextlib import suppress

PACKAGES = (
    "checkers", "commands", "documents", "engine", "engine.transfer", "keeping", "models", "pipeline", "project",
    "recipes", "repair", "reports", "review", "rewrite", "rules", "text",
)  # fmt: skip


def prepare() -> None:
    for name in PACKAGES:
        package = importlib.import_module(f"devfix.{name}")
        for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            with suppress(ImportError):  # an extra that is not installed
                importlib.import_module(info.name)


def listen(path: str) -> None:
    """Fork for each client, and return in the forks: with its arguments, streams, folder and environment."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        print("ready", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            client, _ = server.accept()
            if not os.fork():
                break
            client.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, streams, _, _ = socket.recv_fds(client, 1, 3)
    with client.makefile("rb") as lines:
        request = lines.readline()
    child = os.fork()
    if child:
        client.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 255).encode())
        os._exit(0)
    client.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # Python has looked at what its streams are when it started.
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace")
    sys.argv[1:], folder, environment = json.loads(request)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)


if __name__ == "__main__":
    from devfix.cli import main

    if sys.argv[1:2] == ["listen"]:
        prepare()
        listen(sys.argv[2])
    else:
        from forked import serve

        prepare()
        for name in sys.argv[1:]:
            importlib.import_module(name)
        serve()
    sys.exit(main())
