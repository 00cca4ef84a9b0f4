"""The hard-coded accelerators of a file by function, those left out that stand for CUDA alone."""

from __future__ import annotations

import ast
import re

from devfix.bindings import FunctionNode, function_around
from devfix.flow import Flow, torch_api
from devfix.flow.events import Scope, What
from devfix.flow.lattice import Kind
from devfix.literals.modules import ran_by
from devfix.literals.sites import Site, sites_of

# What puts its parts on GPUs by number has a plan of its own.
_SECOND = re.compile(r"""\.cuda\(\s*(?:device\s*=\s*)?[1-9]\d*\s*\)|["']cuda:[1-9]""")
_TESTS = ("pytest", "unittest", "absl.testing", "hypothesis", "parameterized")
_KERNELS = ("triton", "numba", "cupy", "pycuda", "tensorrt", "torch.utils.cpp_extension")
# `from . import nms_cuda`: a compiled extension.
_EXTENSION = re.compile(r"\w_cuda$|(?:^|\.)cuda_\w+$|_cuda_ext$", re.IGNORECASE)
_OWN_WORD = re.compile(r"cuda|gpu|triton|kernel|bench|profile", re.IGNORECASE)
# Used in code that runs on CUDA only.
_CUDA_ONLY = re.compile(
    r"\bcuda\.(?:synchronize|Event|Stream|CUDAGraph|graph|current_stream|stream|max_memory\w*|memory_\w+|"
    r"reset_\w+|nvtx|set_device|current_device|Generator|device)\b"
)


def grouped(flow: Flow) -> dict[FunctionNode | ast.Module, list[Site]] | None:
    """The sites by function, less those of benchmarks and data loading; None for tests and kernels."""
    source = flow.source
    modules = list(source.imports.values())
    if any(name == word or name.startswith(word + ".") for name in modules for word in (*_TESTS, *_KERNELS)):
        return None
    if any("testing_utils" in name or "test_utils" in name for name in modules):
        return None
    if any(_EXTENSION.search(name) and not name.startswith("torch.") for name in modules):
        return None
    found: dict[FunctionNode | ast.Module, list[Site]] = {}
    for site in sites_of(source, source.tree):
        found.setdefault(function_around(source, site.node) or source.tree, []).append(site)
    hosts = {scope.node for scope in flow.scopes if scope.host and not _runs_module(scope)}
    for function in [one for one in found if one in hosts or _cuda_only(flow, one)]:
        del found[function]
    return {function: sorted(sites, key=place) for function, sites in found.items()}


def _runs_module(scope: Scope) -> bool:
    """Does a function run a module on what it has? Then it is no data loading, whatever it is called."""
    return any(
        event.what is What.USE
        and event.value.kind in (Kind.MODULE, Kind.PART)
        and isinstance(event.node, ast.Call)
        and event.detail not in torch_api.MODULE_ONLY - {"forward"}
        and ran_by(event.node, event.detail) is not None
        and any(not isinstance(one, ast.Constant) for one in event.node.args)
        for event in scope.events
    )


def place(site: Site) -> tuple[int, int]:
    return site.node.lineno, site.node.col_offset


def _cuda_only(flow: Flow, function: FunctionNode | ast.Module) -> bool:
    """Does a function exist for CUDA alone, by its name, by what it calls, or by its use of several GPUs?"""
    source = flow.source
    if isinstance(function, ast.Module):
        return False
    owner = source.enclosing(function, ast.ClassDef)
    names = [function.name, owner.name if isinstance(owner, ast.ClassDef) else ""]
    if any(_OWN_WORD.search(name) or name.lower().startswith("test") for name in names):
        return True
    if _SECOND.search(source.code(owner if isinstance(owner, ast.ClassDef) else function)):
        return True
    return bool(_CUDA_ONLY.search(source.code(function)))
