"""What counts the rounds of a loop tells which arm of a test the first one takes, and which the others."""

from __future__ import annotations

import pytest
from programs import HEAD, marked, spoken

START = "class Sum(nn.Module):\n    def forward(self, x, rows):\n"
FOUND = {
    "the first arm of the first round": """
        for i in range(3):
            if i == 0:
                total = torch.zeros(3)  # <
            else:
                total = total + x
    """,
    "the other arm comes first": """
        for i, row in enumerate(rows):
            if i > 0:
                total = total * x
            else:
                total = torch.ones(3)  # <
    """,
    "no number but 0": """
        for i in range(len(rows)):
            if not i:
                total = torch.ones(3)  # <
                continue
            total = total * x
    """,
    "what no first round gets to": """
        total = torch.ones(3)  # <
        for i in range(9):
            if i == 3:
                x = x * total
    """,
    "a remainder tells nothing": """
        for i in range(9):
            if i % 3 == 0:
                x = x * torch.ones(3)  # <
    """,
    "the second arm of an inner loop": """
        for row in rows:
            for i in range(9):
                if i >= 1:
                    total = total + x
                else:
                    total = torch.ones(3)  # <
    """,
    "after the loop, which had one round or more": """
        total = torch.ones(3)  # <
        for i in range(9):
            y = i
        if i == 0:
            x = x * total
    """,
    "the counter of a loop around": """
        table = torch.ones(3)  # <
        for i in range(3):
            for row in rows:
                if i > 0:
                    print(x * table)
    """,
    "the counter of a loop around, asked below the other loop": """
        table = torch.ones(3)  # <
        for i in range(3):
            while rows:
                print(i)
            if not i:
                continue
            print(x * table)
    """,
    "another number for a counter": """
        total = torch.ones(3)  # <
        for i in range(9):
            i = rows[i]
            if i > 0:
                y = x
            else:
                y = x * total
    """,
    "a count that starts elsewhere": """
        total = torch.ones(3)  # <
        for i in range(1, 9):
            if i == 1:
                x = x * total
    """,
}
SILENT = {
    "replaced in the first round": """
        total = torch.ones(3)
        for i in range(9):
            if i == 0:
                total = x
            else:
                total = total * x
    """,
    "replaced in the first round of each": """
        for row in rows:
            for i, part in enumerate(row):
                y = x * part
                if i < 1:
                    total = y
                else:
                    total = torch.cat([total, y])
            total = total.cpu()
    """,
    "only later rounds": """
        total = torch.ones(3)
        for i in range(9):
            if i:
                x = x * total
            total = x
    """,
}


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    code, wanted = marked(START + FOUND[name])
    assert wanted and spoken(HEAD, code) == wanted


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    assert spoken(HEAD, marked(START + SILENT[name])[0]) == set()
