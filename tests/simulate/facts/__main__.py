"""Print the table of docs/simulate.md: python -m facts, in tests/simulate.

How many facts each theme has, and each of them that does not hold on simulated devices.
"""

from __future__ import annotations

from facts import Fact, facts, themes


def table() -> str:
    known = {theme: facts(theme) for theme in themes()}
    every = [fact for found in known.values() for fact in found]
    other = [fact for fact in every if fact.simulated]
    lines = [
        f"{len(every)} facts in {len(known)} themes; {len(every) - len(other)} hold on simulated devices "
        f"({(len(every) - len(other)) / len(every):.1%}), and these do not:",
        "",
        "| fact | CUDA | simulated | why |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {_cell(fact.id)} | {_cell(_of_cuda(fact))} | {_cell(fact.simulated)} | {fact.why} |"
        for fact in other
    ]
    return "\n".join(lines)


def _of_cuda(fact: Fact) -> str:
    return dict(fact.says)[""]


def _cell(text: str) -> str:
    short = text if len(text) <= 60 else text[:57] + "..."
    return short.replace("|", "\\|")


if __name__ == "__main__":
    print(table())
