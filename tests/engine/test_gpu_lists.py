"""What goes into `CUDA_VISIBLE_DEVICES` is a list of GPUs, though it be called a device."""

from __future__ import annotations

import devfix
import pytest
from snippets import HEAD, alone, codemods  # noqa: F401

PROGRAM = """
import argparse, os
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="0")
args = parser.parse_args()
SETTING
model = nn.Linear(4, 2).cuda()
print(model(torch.zeros(1, 4).cuda()))
"""


@pytest.mark.parametrize(
    "told",
    ["args.device", "str(args.device)", '",".join(args.device)', 'f"{args.device}"', '"%s" % args.device'],
)
def test_no_edit_moves_to_the_list_of_visible_gpus(told: str) -> None:
    code = PROGRAM.replace("SETTING", f'os.environ["CUDA_VISIBLE_DEVICES"] = {told}')
    assert ".to(args.device)" not in devfix.fix(source=HEAD + code, unsafe=True, settings=False).text
    assert not codemods(code)


@pytest.mark.parametrize(
    "setting",
    [
        'os.environ["VISIBLE"] = args.device',
        'os.environ["CUDA_VISIBLE_DEVICES"] = args.device.split(":")[1]',
        'os.environ["CUDA_VISIBLE_DEVICES"] = args.device\nargs.device = pick()',
        'os.environ["CUDA_VISIBLE_DEVICES"] = args.device\nx = torch.ones(2).to(args.device)',
    ],
)
def test_an_option_that_is_a_device_as_well_stays_one(setting: str) -> None:
    code = PROGRAM.replace("SETTING", setting)
    assert ".to(args.device)" in devfix.fix(source=HEAD + code, unsafe=True, settings=False).text


def test_a_parameter_that_says_what_is_visible_is_no_device() -> None:
    code = """
import os
def main(device):
    SETTING
    model = nn.Linear(4, 2).cuda()
    print(model(torch.zeros(1, 4).cuda()))
"""

    def text(setting: str) -> str:
        return devfix.fix(source=HEAD + code.replace("SETTING", setting), unsafe=True, settings=False).text

    assert ".to(device)" in text('os.environ["VISIBLE"] = device; x = torch.ones(2).to(device)')
    assert ".to(device)" not in text('os.environ["CUDA_VISIBLE_DEVICES"] = device')
