"""`default-device`: what relies on a default device goes with the device of the program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from devfix.codemod import Codemod, Example
from devfix.defaults import library, random
from devfix.defaults.constructors import LIBRARIES
from devfix.defaults.examples import EXAMPLES
from devfix.findings import Finding
from devfix.flow import Flow, torch_api
from devfix.remarks import Remark


@dataclass(frozen=True)
class DefaultDevice(Codemod):
    """What relies on a default device goes with the device of the program.

    ## What it does
    Where `torch.set_default_device` or `torch.set_default_tensor_type` makes an accelerator the
    default, finds what still assumes the CPU: `torch.Generator()` whose numbers are drawn on the default
    device, `DataLoader(.., shuffle=True)`, `RandomSampler` and `random_split` without a generator, and
    `.numpy()` of what a factory has just made.

    Where the program names its device, finds constructors of other libraries whose `device=` is left
    out, and whose default is another device: the CPU (`open_clip.create_model_and_transforms`), CUDA
    whether there is any or not (`sam2.build_sam.build_sam2`), or one that the library chooses
    (`SentenceTransformer`) next to a device that is chosen by number or option. The table is in
    `defaults/constructors.py`. Nothing is said where the code moves what it gets.

    ## Why is this bad?
    The default device is not that of a generator, so that shuffling raises "Expected a 'cuda' device type
    for generator but found 'cpu'"
    (https://pytorch.org/docs/stable/generated/torch.set_default_device.html). A constructor without a
    device takes one of its own, and the first meeting with the program's tensors raises.

    ## Fix safety
    Safe for `torch.Generator()` and `.numpy()`: where the default is the CPU they do what they did.
    Unsafe for a generator where there was none, since the order of the data becomes another one, and for
    devices that are passed to other libraries.
    """

    id: ClassVar[str] = "default-device"
    words: ClassVar[tuple[tuple[str, ...], ...]] = (
        (*torch_api.DEFAULT_DEVICE_CALLS, *LIBRARIES),
        ("torch", "llama_index", "sentence_transformers", "InstructorEmbedding"),
    )
    examples: ClassVar[tuple[Example, ...]] = EXAMPLES

    def check(self, flow: Flow) -> Iterator[Finding]:
        remarks: list[Remark] = []
        if any(call in flow.source.text for call in torch_api.DEFAULT_DEVICE_CALLS):
            remarks += random.remarks(flow)
        if any(what.partition(".")[0] in LIBRARIES for what in flow.source.imports.values()):
            remarks += library.left_out(flow)
        for remark in remarks:
            yield remark.finding(self)
