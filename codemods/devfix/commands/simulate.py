"""`devfix simulate --build`: an extension of torch for simulated devices, faster and where nothing else will do."""

from __future__ import annotations

import click

from devfix.commands.helping import command, option
from devfix.commands.running import complain


@command(
    examples={"devfix simulate --build": "compile the extension for the torch that is installed"},
    codes={0: "devices can be simulated", 2: "they cannot, or nothing could be compiled"},
)
@option("--build", "Compile it, with the C++ compiler of $CXX or c++.", required=True)
def simulate(build: bool) -> int:
    """Compile an extension that simulates CUDA faster, and where the objects of torch are not known well enough.

    With it, programs of many small operations take half the time or less. It is needed on systems other than Linux,
    and with a torch that is laid out otherwise; on GPU builds of torch, it simulates a little more. It is kept in the
    cache folder of the user and used from then on, for this torch.
    """
    from devfix.doctor import machine

    try:
        from devfix.simulate import CannotSimulate, native
    except ModuleNotFoundError as error:
        raise click.ClickException(f"{error}; pip install 'devfix[smoke]'") from error
    try:
        complain(f"built {native.build()}")
    except (CannotSimulate, OSError) as error:
        raise click.ClickException(str(error)) from error
    facts = machine.facts(True)
    if not facts.simulated:
        raise click.ClickException(f"the simulator cannot be used: {facts.simulator or facts.why}")
    complain(facts.simulator)
    return 0
