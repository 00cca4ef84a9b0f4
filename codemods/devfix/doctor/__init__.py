"""Is devfix, and what it stands on, in order here? What `devfix doctor` looks at.

Nothing here raises for what it finds: whatever is wrong is a line with a status. torch is never imported in
this process, since a broken one may end it.
"""

from __future__ import annotations

from devfix.doctor.health import Health, Section

__all__ = ["Health", "examine"]


def examine(folder: str, *, torch: bool = True) -> Health:
    """Examine devfix as it works for `folder` (or a file); without `torch`, no program is run."""
    from devfix.doctor import installed, machine, selftest, settings

    facts = machine.facts(torch)
    return Health(
        (
            Section("devfix", tuple(installed.own())),
            Section("libraries", tuple(installed.libraries())),
            Section("torch and devices", tuple(machine.lines(facts))),
            Section("files", tuple(settings.files(folder))),
            Section("settings in force", tuple(settings.in_force(folder))),
            Section("self-test", tuple(selftest.lines(run=torch and facts.torch != ""))),
        )
    )
