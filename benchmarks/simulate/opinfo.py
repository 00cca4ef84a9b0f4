"""torch's own operator samples (OpInfo) on simulated devices beside the CPU: values, gradients, device mixes.

    devfix run --devices 2 benchmarks/simulate/opinfo.py [FILE]
    devfix run --device mps benchmarks/simulate/opinfo.py [FILE]

`values`: up to four float32 samples of each operator give on the first device what they give on the CPU, and the same
gradient. Random operators are only run. `mixes`: one of two tensors stays on the CPU, both ways. FILE
gets the counts and every operator that is not as expected.
"""

from __future__ import annotations

import collections
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

import torch  # noqa: E402
from devfix.simulate import SimulationUnsupported, enabled  # noqa: E402
from devfix.simulate.machine import machine  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten  # noqa: E402

RANDOM = [
    "rand",
    "dropout",
    "bernoulli",
    "normal",
    "multinomial",
    "uniform",
    "exponential",
    "cauchy",
    "geometric",
    "poisson",
    "empty",
    "rrelu",
    "gumbel",
    "svd_lowrank",
    "pca_lowrank",
]
SAMPLES = 4
LACKS = (
    "not currently implemented for the MPS device",
    "MPS framework doesn't support",
    "to the MPS backend but",
)
SAME = "same device", "at least two devices", "Placeholder storage", "but expected on mps"


def samples(op, number):
    dtype = torch.float32 if torch.float32 in op.dtypes else next(iter(op.dtypes))
    torch.manual_seed(0)
    try:
        found = [
            sample
            for _, sample in zip(
                range(number), op.sample_inputs("cpu", dtype, requires_grad=False), strict=False
            )
        ]
    except Exception:
        return []
    return [(sample.input, sample.args, sample.kwargs) for sample in found]


def on_cuda(value):
    if isinstance(value, torch.Tensor):
        return value.to(machine.kind)
    named = isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu")
    return machine.device(0) if named else value


def copied(value):
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def gradient(op, arguments):
    first = arguments[0].detach().clone().requires_grad_()
    out = [t for t in tree_leaves(op(first, *arguments[1], **arguments[2])) if isinstance(t, torch.Tensor)]
    total = sum(t.sum() for t in out if t.requires_grad and not t.is_complex())
    return None if isinstance(total, int) else torch.autograd.grad(total, first, allow_unused=True)[0]


def tell(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:140]}"


def values(op):
    """What came of one operator, and why."""
    checked = False
    for sample in samples(op, SAMPLES):
        host = tree_map(copied, sample)
        try:
            expected = op(host[0], *host[1], **host[2])
        except Exception:
            continue
        try:
            cuda = tree_map(on_cuda, sample)
            found = op(cuda[0], *cuda[1], **cuda[2])
            checked = True
            if any(word in op.name for word in RANDOM):
                continue
            back = tree_map(lambda x: x.cpu() if isinstance(x, torch.Tensor) else x, found)
            torch.testing.assert_close(back, expected, equal_nan=True, rtol=1e-4, atol=1e-4)
            first = host[0]
            if not (op.supports_autograd and isinstance(first, torch.Tensor) and first.is_floating_point()):
                continue
            try:
                expected = gradient(op, host)
            except Exception:
                continue
            found = gradient(op, cuda)
            if expected is not None:
                torch.testing.assert_close(found.cpu(), expected, equal_nan=True, rtol=1e-3, atol=1e-3)
        except SimulationUnsupported as error:
            return "refused", tell(error)
        except AssertionError as error:
            return "differs", tell(error)
        except Exception as error:
            return ("lacks" if any(text in str(error) for text in LACKS) else "error"), tell(error)
    return ("same", "") if checked else ("no sample", "")


def mixes(op):
    """One tensor of the first sample with two is left on the CPU, then the other."""
    for sample in samples(op, 12):
        leaves, shape = tree_flatten(sample)
        places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor) and x.dim() and x.numel()]
        if len(places) < 2:
            continue
        try:
            op(sample[0], *sample[1], **sample[2])
        except Exception:
            continue
        for stays in (places[1], places[0]):
            try:
                moved = [x if i == stays else on_cuda(x) for i, x in enumerate(leaves)]
                arguments = tree_unflatten(moved, shape)
                op(arguments[0], *arguments[1], **arguments[2])
                yield "allowed", "the first stays on the CPU" if stays == places[0] else ""
            except SimulationUnsupported as error:
                yield "refused", tell(error)
            except Exception as error:
                text = str(error)
                if any(lacking in text for lacking in LACKS):
                    yield "lacks", ""
                elif any(same in text for same in SAME):
                    yield "same-device text", ""
                else:
                    yield (
                        ("other device text" if "device" in text or machine.kind in text else "error"),
                        tell(error),
                    )
        return


def main():
    assert enabled(), "to be run by `devfix run`"
    lines = [f"# OpInfo of torch {torch.__version__} on simulated {machine.key}"]
    for name, judge in (("values", lambda op: [values(op)]), ("mixes", mixes)):
        counts, details = collections.Counter(), []
        for op in op_db:
            for kind, why in judge(op) if op.dtypes else ():
                counts[kind] += 1
                if kind not in ("same", "same-device text", "no sample", "lacks"):
                    details.append(f"- {kind}: {op.full_name}{': ' + why if why else ''}")
        lines += [
            "",
            f"## {name}",
            "",
            ", ".join(f"{kind} {count}" for kind, count in counts.most_common()),
            "",
        ]
        lines += sorted(details)
        print(lines[0], name, dict(counts), flush=True)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
