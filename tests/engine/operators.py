"""Print, as JSON, what each operator does with one operand on the CPU while the others are on a (simulated) device.

Run by `test_model.py` in a process of its own; `NAMES` is set by it. Samples are torch's own (`op_db`).
"""

import json
import sys
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402


def moved(value, device):
    if isinstance(value, torch.Tensor):
        return value.detach().to(device)
    if isinstance(value, (list, tuple)):
        return type(value)(moved(one, device) for one in value)
    if isinstance(value, dict):
        return {key: moved(one, device) for key, one in value.items()}
    return value


def paths(value, path=()):
    """Where the tensors of an argument are, and how many dimensions they have."""
    if isinstance(value, torch.Tensor):
        yield path, value.dim()
    elif isinstance(value, (list, tuple)):
        for number, one in enumerate(value):
            yield from paths(one, (*path, number))
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from paths(one, (*path, key))


def with_stray(value, path):
    """The same arguments with the tensor at that path on the CPU."""
    if not path:
        return value.to("cpu")
    head, *rest = path
    if isinstance(value, dict):
        return {key: with_stray(one, rest) if key == head else one for key, one in value.items()}
    return type(value)(with_stray(one, rest) if number == head else one for number, one in enumerate(value))


def outcome(op, sample, path):
    """ran, device (it raised for the devices), or other."""
    arguments = moved([sample.input, list(sample.args), dict(sample.kwargs)], "cuda")
    try:
        op.op(arguments[0], *arguments[1], **arguments[2])
    except Exception:
        return "other"
    arguments = with_stray(moved([sample.input, list(sample.args), dict(sample.kwargs)], "cuda"), path)
    try:
        op.op(arguments[0], *arguments[1], **arguments[2])
    except Exception as error:
        told = str(error).lower()
        return (
            "device" if isinstance(error, RuntimeError) and ("device" in told or "cuda" in told) else "other"
        )
    return "ran"


found = {}
for op in op_db:
    if op.name not in NAMES or op.variant_test_name:  # noqa: F821
        continue
    dtype = torch.float32 if torch.float32 in op.dtypes else sorted(op.dtypes, key=str)[0]
    for sample in list(op.sample_inputs("cpu", dtype))[:8]:
        all_paths = list(paths([sample.input, list(sample.args), dict(sample.kwargs)]))
        if len(all_paths) < 2:
            continue
        for path, dim in all_paths[1:3]:
            known = found.setdefault(op.name, {})
            kind = "stray" if dim else "zero"
            if known.get(kind) != "device":
                made = outcome(op, sample, path)
                if made != "other":
                    known[kind] = made
json.dump(found, sys.stdout)
