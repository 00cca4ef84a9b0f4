"""Hard-coded accelerators that are no moves: defaults, buffers to be, and files that are CUDA throughout."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from devfix.bindings import Bindings, function_around
from devfix.findings import DeleteStatement, Edit, InsertStatement, ReplaceExpression, Safety
from devfix.flow import Flow
from devfix.flow.frame import path_of
from devfix.flow.lattice import Kind
from devfix.literals.partners import FunctionNode, Partners
from devfix.literals.sites import Site, edits_for, names_cuda
from devfix.literals.verdict import Verdict
from devfix.placing import dotted
from devfix.source import Source

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DECLARED = {
    "cuda": 'torch.device("cuda" if torch.cuda.is_available() else "cpu")',
    "accelerator": "torch.accelerator.current_accelerator() if torch.accelerator.is_available() "
    'else torch.device("cpu")',
}


# --- defaults --------------------------------------------------------------------------------


def defaults(flow: Flow) -> Iterator[Verdict]:
    """`def f(x, device="cuda")` that makes something with `device` to meet `x`."""
    for node in flow.source.walk():
        if isinstance(node, _FUNCTIONS):
            found = _default(flow, node)
            if found is not None:
                yield found


def _default(flow: Flow, function: FunctionNode) -> Verdict | None:
    source, arguments = flow.source, function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(plain[len(plain) - len(arguments.defaults) :], arguments.defaults, strict=True)]
    pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d]
    for argument, default in pairs:
        if isinstance(default, ast.Constant) and isinstance(default.value, int):
            continue
        if not names_cuda(source, default):
            continue
        sites = [
            Site(node, keyword.value, "default")
            for node in source.walk(function)
            if isinstance(node, ast.Call) and function_around(source, node) is function
            for keyword in node.keywords
            if keyword.arg == "device" and path_of(keyword.value) == argument.arg
        ]
        stored = any(
            isinstance(node, ast.Name) and node.id == argument.arg and not isinstance(node.ctx, ast.Load)
            for node in source.walk(function)
        )
        partners = Partners(flow, function, {site.node for site in sites})
        for site in sites:
            partner = partners.of(site)
            if partner is None or partner.device.startswith("next(") or stored:
                continue
            tensor = partner.device.partition(".")[0]
            if tensor not in partners.parameters or tensor == argument.arg:
                continue
            first = function.body[0]
            if ast.get_docstring(function) is not None and len(function.body) > 1:
                first = function.body[1]
            line = f"{argument.arg} = {partner.device} if {argument.arg} is None else {argument.arg}"
            edits: tuple[Edit, ...] = (
                ReplaceExpression(source.span(default), "None"),
                InsertStatement(source.span(first), line, before=True),
            )
            why = (
                f"is the default of `{argument.arg}`; tensors made on it are combined with `{partner.what}`, "
                "which may be elsewhere"
            )
            code = source.code(default)
            return Verdict(source.span(default), code, partner.device, why, edits, Safety.MANUAL, site.node)
    return None


# --- buffers ---------------------------------------------------------------------------------


def buffer(flow: Flow, bindings: Bindings, function: FunctionNode | ast.Module, site: Site) -> Verdict | None:
    """`self.table = make().cuda()` in the `__init__` of a module: a buffer moves along with the module."""
    source = flow.source
    statement = source.parents[site.node]
    owner = source.parents.get(function)
    if isinstance(function, ast.Module) or function.name != "__init__" or not isinstance(owner, ast.ClassDef):
        return None
    if (
        not isinstance(statement, ast.Assign)
        or len(statement.targets) != 1
        or site.form not in ("cuda", "to")
    ):
        return None
    if not any(dotted(base).endswith("Module") for base in owner.bases) or site.receiver is None:
        return None
    assert isinstance(site.node, ast.Call)
    if len(site.node.args) + len(site.node.keywords) > (site.form == "to"):
        return None  # a dtype goes along
    path = path_of(statement.targets[0])
    if not path.startswith("self.") or path.count(".") != 1:
        return None
    if flow.value(site.receiver).kind is not Kind.TENSOR or len(bindings.of_class(owner, path)) != 1:
        return None
    used = [
        node
        for node in source.walk(owner)
        if isinstance(node, ast.Attribute) and path_of(node) == path and isinstance(node.ctx, ast.Load)
    ]
    if not used or not _after_super(source, function, statement):
        return None
    why = "is fixed to CUDA, while the module that it belongs to may be moved"
    receiver = source.code(site.receiver)
    span = source.span(statement)
    edits: tuple[Edit, ...] = ()
    if _is_parameter(source, site.receiver):
        # What the move makes of a parameter is a plain tensor, which nobody trains or saves.
        if source.code(site.node).startswith(receiver):
            edits = (ReplaceExpression(source.span(site.node), receiver),)
        why = "is no parameter any more, since its copy on CUDA is a plain tensor, and stays there"
        code, title = source.code(site.node), "leave the move to the module"
        return Verdict(span, code, "", why, edits, Safety.UNSAFE, used[0], title)
    trained = any(isinstance(n, ast.keyword) and n.arg == "requires_grad" for n in source.walk(site.receiver))
    if "\n" not in receiver and source.code(site.node).startswith(receiver) and not trained:
        text = f'self.register_buffer("{path[5:]}", {receiver}, persistent=False)'
        edits = (InsertStatement(span, text, before=True), DeleteStatement(span))
    code = source.code(site.node)
    return Verdict(
        span, code, "", why, edits, Safety.UNSAFE, used[0], f"make `{path}` a buffer of the module"
    )


def _is_parameter(source: Source, node: ast.expr) -> bool:
    """`nn.Parameter(..)`, also behind further calls: `nn.Parameter(..).float()`"""
    while isinstance(node, ast.Call):
        if source.qualified(node.func) in ("torch.nn.Parameter", "torch.nn.parameter.Parameter"):
            return True
        if not isinstance(node.func, ast.Attribute):
            return False
        node = node.func.value
    return False


def _after_super(source: Source, function: FunctionNode, statement: ast.stmt) -> bool:
    """Does `super().__init__()` stand above?"""
    end = source.span(statement).start
    return any(
        (isinstance(node, ast.Call) and path_of(node.func).endswith("__init__")) or _super_init(node)
        for node in source.walk(function)
        if isinstance(node, ast.Call) and source.span(node).start < end
    )


def _super_init(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "__init__"
        and isinstance(node.func.value, ast.Call)
        and path_of(node.func.value.func) == "super"
    )


# --- files that are CUDA throughout ----------------------------------------------------------


def named_constants(source: Source) -> list[ast.expr]:
    """The values of `device = "cuda"`, `self._device = torch.device("cuda")` and the like, in any scope."""
    return [
        node.value
        for node in source.walk()
        if isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and path_of(node.targets[0]).lower().endswith("device")
        and isinstance(node.value, (ast.Constant, ast.Call))
        and names_cuda(source, node.value, text=True)
    ]


def declared(flow: Flow, sites: list[Site], how: str) -> Verdict | None:
    """One device declared once, in place of every literal of a file; None if there is nothing to declare.

    Without edits where no name is free, or `torch` is not imported on top.
    """
    source = flow.source
    constants = named_constants(source)
    if not sites and not constants:
        return None
    edits: list[Edit] = []
    text = DECLARED[how]
    for value in constants:
        edits.append(ReplaceExpression(source.span(value), text))
    name, anchor = free_name(source), last_import(source)
    whole = True
    for site in sites:
        found, _ = edits_for(source, site, name)
        whole = whole and bool(found)
        edits.extend(found)
    if sites and anchor is not None:
        edits.insert(0, InsertStatement(source.span(anchor), f"{name} = {text}"))
    usable = whole and (not sites or (name and anchor is not None)) and source.imports.get("torch") == "torch"
    nodes: list[ast.expr] = [*(site.node for site in sites), *constants]
    first = min(nodes, key=lambda node: (node.lineno, node.col_offset))
    code = source.code(first)
    others = {1: "", 2: ", as is one other place"}.get(len(nodes), f", as are {len(nodes) - 1} other places")
    why = f"is hard-coded{others}"
    return Verdict(
        source.span(first),
        code,
        name,
        why,
        tuple(edits) if usable else (),
        Safety.UNSAFE,
        None,
        "declare the device once",
    )


def free_name(source: Source) -> str:
    """A name for the device that the file does not use yet."""
    used = {node.id for node in source.walk() if isinstance(node, ast.Name)}
    used |= {node.arg for node in source.walk() if isinstance(node, ast.arg)}
    return next((name for name in ("device", "DEVICE") if name not in used), "")


def last_import(source: Source) -> ast.stmt | None:
    """The last of the imports that a file begins with; None if `torch` is not among them."""
    found: ast.stmt | None = None
    torch = False
    for statement in source.tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            found = statement
            torch = torch or any(alias.name == "torch" and not alias.asname for alias in statement.names)
        elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            break
    return found if torch else None
