"""What a file shows of the programs that run it: where nothing does, a hard-coded accelerator is as good as any."""

from __future__ import annotations

import ast
import re
from functools import cached_property

from devfix.flow import Flow
from devfix.flow.evidence import looks_like_module
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind
from devfix.literals.sites import Site, sites_of

# Code that tells devices apart somewhere: then a literal next to it is an oversight.
AGNOSTIC = re.compile(
    r"\.device\b(?!\()|\bis_available\(|\.is_cuda\b|\.type_as\("
    r"|\[[\"']device[\"']\]|\bdevice\s*=\s*(?!=|[\"'\s]|f[\"']cuda:|torch\.device\(\s*f?[\"']cuda[^\"']*[\"']\s*[,)])"
)
# A program rather than a library.
SCRIPT = re.compile(
    r"__main__|\bargparse\b|\bimport fire\b|\bhydra\b|\bimport click\b|\bgradio\b|\bstreamlit\b"
)
# GPUs by number, and processes with one each: the program has decided where things are.
_NUMBERED = re.compile(
    r"""torch\.device\(\s*f?["']cuda(?!["'][^)\n]{0,300}\bif\b)|\.cuda\(\s*(?!non_blocking)[\w.]|f["']cuda:|\bdeepspeed\b"""
)


class Gate:
    """One file, as a whole."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.source = flow.source
        self.agnostic = bool(AGNOSTIC.search(flow.source.text))

    @cached_property
    def library(self) -> bool:
        """Does the file leave it to others where models are? Then tensors belong where they meet."""
        return self.unplaced and not SCRIPT.search(self.source.text)

    @cached_property
    def unplaced(self) -> bool:
        """Is no module put on CUDA by name in the whole file?"""
        return not any(
            site.receiver is not None and self._moves_module(site)
            for site in sites_of(self.source, self.source.tree)
        )

    @cached_property
    def open(self) -> bool:
        """Does nothing in the file say that modules are on CUDA?"""
        return self.unplaced and not _NUMBERED.search(self.source.text)

    def _moves_module(self, site: Site) -> bool:
        assert site.receiver is not None
        if isinstance(self.source.parents[site.node], ast.Expr):
            return True
        value = self.flow.value(site.receiver)
        return (
            value.kind in (Kind.MODULE, Kind.PART)
            or looks_like_module(path_of(site.receiver))
            or (isinstance(site.receiver, ast.Call) and self._constructs(site.receiver.func))
        )

    def _constructs(self, callee: ast.expr) -> bool:
        """`mil.Classifier`: a class, and none of torch's tensors."""
        name = self.source.qualified(callee)
        tensors = name.startswith("torch.") and not name.startswith("torch.nn.")
        return not tensors and path_of(callee).rpartition(".")[2][:1].isupper()
