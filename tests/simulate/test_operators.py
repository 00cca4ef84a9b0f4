"""Operators and modules with one operand elsewhere: simulated devices do what every GPU that has been asked does."""

from __future__ import annotations

import json
import re

import pytest
from devfix.simulate.native_functions import load
from devfix.smoke import run_program
from record_cuda import HERE
from test_cuda_facts import RECORDS

PROGRAM = """
import json, sys
sys.path[:0] = [{tests!r}]
import operators, record_cuda
names = [name for name in operators.samples() if name in {names!r}]
print(json.dumps(record_cuda.strays(names, 2)))
"""
# What differs, and why.
OTHERWISE = {
    "_segment_reduce.lengths": "the kernel compares keyword arguments, whose check is in its own source",
    "_segment_reduce.offsets": "as above",
    "searchsorted": "as above: the sorter",
    "nn.functional.conv_transpose2d": "another check speaks where cuDNN is not used",
    "nn.functional.conv_transpose3d": "as above",
    "jiterator_2inputs_2outputs": "kernels that are compiled at run time are refused",
    "jiterator_4inputs_with_extra_args": "as above",
    "jiterator_binary": "as above",
    "jiterator_binary_return_by_ref": "as above",
}
ASKED = {name: record["operators"] for name, record in RECORDS.items() if "operators" in record}


def outcomes(words: str) -> dict[str, str]:
    """What came of each operand that was alone."""
    return {key: what for key, _, what in (one.partition(" ") for one in words.split(", "))}


@pytest.fixture(scope="module")
def simulated(request: pytest.FixtureRequest) -> dict[str, str]:
    """What came of the operators with two operands; of a third of them, unless the run is a long one."""
    names = sorted({name for record in ASKED.values() for name in record})
    if not request.config.getoption("--long"):
        names = names[1::3]
    done = run_program(PROGRAM.format(tests=str(HERE), names=names), "cuda", timeout=600)
    if done.device != "cuda (simulated)":
        pytest.skip(f"no simulated devices: {done.device} {done.error}")
    assert done.status == "ok", done
    found: dict[str, str] = json.loads(done.output)
    return found


@pytest.mark.parametrize("record", ASKED)
def test_simulated_devices_do_what_a_gpu_does(record: str, simulated: dict[str, str]) -> None:
    """Samples differ between versions of torch: what both have must be alike."""
    asked, alike, wrong = ASKED[record], 0, {}
    for name in asked.keys() & simulated.keys():
        real, ours = outcomes(asked[name]), outcomes(simulated[name])
        other = [
            f"{key}: {real[key]}, not {ours[key]}"
            for key in real.keys() & ours.keys()
            if real[key] != ours[key]
        ]
        alike += len(real.keys() & ours.keys()) - len(other)
        if other or re.match(r"\D", simulated[name]):
            wrong[name] = other
    assert alike > 6 * len(simulated) > 600
    assert wrong.keys() == OTHERWISE.keys() & simulated.keys(), wrong


def test_the_names_in_messages_are_those_that_torchgen_writes() -> None:
    from torchgen.api.types import DispatcherSignature, NativeSignature
    from torchgen.model import FunctionSchema

    known = load()
    wrong = {}
    for full, function in known.items():
        schema = FunctionSchema.parse(function.schema)
        if function.structured:
            name = NativeSignature(schema, prefix="wrapper_CUDA_", symint=False).name()
        else:
            prefix = f"wrapper_CUDA_{function.overload}_"
            name = DispatcherSignature.from_schema(schema, prefix=prefix).name()
        if name != function.method:
            wrong[full] = function.method, name
    assert len(known) > 2000 and not wrong
