"""What a function does with its names: the methods and attributes that it uses, and the operations it gives them to."""

from __future__ import annotations

import ast

from devfix.engine.files import Class, Function
from devfix.engine.values import DEVICE, MODULE, PROVEN, TENSOR, UNKNOWN, USES, Assumption, Assumptions
from devfix.models.loader import models, tensor_attributes
from devfix.text.source import Source, remembered

Evidence = tuple[str, Assumptions]
NO_EVIDENCE: Evidence = (UNKNOWN, PROVEN)

# Methods and attributes that, of all that programs pass around, only tensors have.
_CALLED_USES = frozenset(
    {"size()", "dim()", "long()", "sort()", "stride()"}
)  # arrays have none of these, or give nothing
TENSOR_USES = _CALLED_USES | frozenset(
    [
        "unsqueeze",
        "unsqueeze_",
        "permute",
        "contiguous",
        "detach",
        "log_softmax",
        "expand",
        "expand_as",
        "view_as",
        "masked_fill",
        "masked_fill_",
        "scatter_",
        "scatter_add_",
        "index_select",
        "matmul",
        "bmm",
        "type_as",
        "new_zeros",
        "new_ones",
        "new_tensor",
        "new_full",
        "new_empty",
        "unbind",
        "narrow",
        "normal_",
        "zero_",
        "clamp",
        "clamp_",
        "topk",
        "requires_grad_",
        "repeat_interleave",
        "masked_select",
        "triu",
        "tril",
        "logsumexp",
        "index_fill_",
        "index_add_",
        "reshape_as",
        "bernoulli",
        "uniform_",
        "is_contiguous",
        "softmax",
        "sigmoid",
        "log1p",
        "numel",
        "squeeze",
        "flatten",
    ]
)
# What arrays have as well: two of them, or one and what arrays lack.
_SHARED_USES = frozenset(
    [
        "shape",
        "dtype",
        "ndim",
        "reshape",
        "transpose",
        "sum",
        "mean",
        "max",
        "min",
        "T",
        "astype",
        "argmax",
        "clip",
        "size",
    ]
)
_TORCH_USES = frozenset(
    ["device", "cuda", "cpu", "requires_grad", "is_cuda", "float", "half", "long", "dim", "view", "grad"]
)
MODULE_USES = frozenset(
    [
        "train",
        "eval",
        "parameters",
        "named_parameters",
        "modules",
        "named_modules",
        "children",
        "named_children",
        "buffers",
        "named_buffers",
        "add_module",
        "register_buffer",
        "register_parameter",
        "register_forward_hook",
        "get_submodule",
        "zero_grad",
    ]
)
_OTHER_USES = frozenset(
    [
        "items",
        "keys",
        "values",
        "append",
        "split",
        "strip",
        "join",
        "format",
        "get",
        "update",
        "read",
        "write",
        "lower",
        "upper",
    ]
)
_MOVES = frozenset({"to", "cuda"})
# Factories whose arguments are sizes and bounds: of several, or of these alone, each is a number.
_SIZED = frozenset(
    {"arange", "range", "linspace", "logspace", "eye", "randperm", "zeros", "ones", "rand", "randn", "empty"}
)

# Kinds of nodes that say something of names; most nodes are of others.
_READ = frozenset(
    {ast.Attribute, ast.Call, ast.If, ast.Assign, ast.Expr, ast.For, ast.comprehension, ast.Subscript}
)


class Uses:
    """What a function does with its names."""

    def __init__(self, function: Function) -> None:
        self.attributes: dict[str, set[str]] = {}
        self.called: set[str] = set()
        self.sliced: set[str] = set()  # x[:, 0], x[..., None]
        self.of_parts: dict[str, set[str]] = {}  # the attributes of x[..]
        self.keyed: set[str] = set()  # x["a"]
        self.devices: set[str] = set()  # device=x, .to(x) among names that are called so
        self.targets: set[str] = set()  # .to(x)
        self.looped: set[str] = set()  # for x in
        self.numbers: set[str] = set()
        self.asks_for_devices = False  # x.device, .cuda(), device=
        self.moves = False  # .to(...)
        self.converted: set[str] = set()  # x = torch.tensor(x)
        self.listed: set[str] = (
            set()
        )  # may be a list: isinstance(x, list), len(x) and zip(x), and its company
        self.tokenized: set[str] = set()  # text or images: given to a tokenizer or a processor
        measured, zipped, settled = set[str](), list[set[str]](), set[str]()
        self.operands: set[str] = set()  # given to a function that takes tensors only
        self.moved: set[str] = set()  # x.to(...) as a statement
        self.settings: set[str] = set()  # of which a part has the name of a module's method
        dotted = function.file.dotted
        find = models().function
        for node in function.nodes:
            if node.__class__ not in _READ:
                continue
            if isinstance(node, ast.Attribute):
                if node.attr in ("device", "cuda", "is_cuda"):
                    self.asks_for_devices = True
                if isinstance(node.value, ast.Name):
                    self.attributes.setdefault(node.value.id, set()).add(node.attr)
                elif isinstance(node.value, ast.Subscript) and isinstance(node.value.value, ast.Name):
                    self.of_parts.setdefault(node.value.value.id, set()).add(node.attr)
                elif isinstance(node.value, ast.Attribute) and node.value.attr in MODULE_USES:
                    if isinstance(node.value.value, ast.Name):  # `args.train.steps`
                        self.settings.add(node.value.value.id)
            elif isinstance(node, ast.Call):
                func = node.func
                if (
                    isinstance(func, ast.Attribute)
                    and isinstance(func.value, ast.Name)
                    and (
                        func.attr in ("dim", "long", "stride")
                        or (func.attr == "size" and node.args)
                        or (func.attr == "view" and any(map(_is_number, node.args)))
                    )
                ):
                    self.attributes.setdefault(func.value.id, set()).add(f"{func.attr}()")
                self.moves = self.moves or (isinstance(func, ast.Attribute) and func.attr == "to")
                if any(keyword.arg == "return_tensors" for keyword in node.keywords):
                    given = (*node.args, *(keyword.value for keyword in node.keywords))
                    self.tokenized.update(one.id for one in given if isinstance(one, ast.Name))
                for keyword in node.keywords:
                    self.asks_for_devices = self.asks_for_devices or keyword.arg == "device"
                    if keyword.arg == "device" and isinstance(keyword.value, ast.Name):
                        self.devices.add(keyword.value.id)
                if isinstance(node.func, ast.Name):
                    self.called.add(node.func.id)
                    names = {one.id for one in node.args if isinstance(one, ast.Name)}
                    if node.func.id == "isinstance":
                        self.listed |= _listed_in(node)
                    elif node.func.id == "zip":
                        zipped.append(names)
                    elif node.func.id == "len":
                        measured |= names
                    if node.func.id in ("range", "int", "float", "bool", "open"):
                        self.numbers.update(one.id for one in node.args if isinstance(one, ast.Name))
                first = node.args[0] if node.args else None
                first = first.operand if isinstance(first, ast.UnaryOp) else first
                scaled = _unscaled(first)
                if not isinstance(scaled, ast.Name):
                    continue
                name = dotted(node.func)
                row = find(name)
                if row is not None and row.form in ("same", "follow", "like") and name != "torch.where":
                    self.operands.add(scaled.id)
                if not isinstance(first, ast.Name):
                    continue
                if name in models().sized:
                    self.numbers.update(one.id for one in node.args[:2] if isinstance(one, ast.Name))
                if isinstance(func, ast.Attribute) and func.attr == "to":
                    self.targets.add(first.id)
                if row is not None and row.form in ("data", "array", "legacy") and name != "torch.asarray":
                    self.converted.add(first.id)
                if name == "torch.device":
                    self.devices.add(first.id)
                elif name.startswith("torch."):
                    if row is not None and row.form == "make" and name.rpartition(".")[2] in _SIZED:
                        if row.rank == 1 and (len(node.args) > 1 or name.endswith(("range", "eye", "perm"))):
                            self.numbers.update(one.id for one in node.args if isinstance(one, ast.Name))
            elif isinstance(node, ast.If) and isinstance(node.body[-1], (ast.Return, ast.Raise)):
                settled |= _listed_in(node.test)
            elif isinstance(node, ast.Assign):
                self._unpacked(node)
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                func = node.value.func
                if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name):
                    if func.attr in ("to", "cuda"):
                        self.moved.add(func.value.id)
            elif isinstance(node, (ast.For, ast.comprehension)):
                self.looped.update(one.id for one in ast.walk(node.target) if isinstance(one, ast.Name))
            elif isinstance(node, ast.Subscript):
                if not isinstance(node.value, ast.Name):
                    continue
                if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                    self.keyed.add(node.value.id)
                if isinstance(node.slice, ast.Tuple):
                    if any(isinstance(one, ast.Slice) or _new_axis(one) for one in node.slice.elts):
                        self.sliced.add(node.value.id)
        for names in zipped:
            if names & (measured | self.listed):
                self.listed |= names
        self.listed -= settled  # where it is a list, that is all

    def _unpacked(self, node: ast.Assign) -> None:
        """`values, order = x.sort()`: lists give nothing. `n, m = x.size()`: others have one."""
        func = node.value.func if isinstance(node.value, ast.Call) else None
        if isinstance(node.targets[0], ast.Tuple) and isinstance(func, ast.Attribute):
            if isinstance(func.value, ast.Name) and func.attr in ("sort", "size"):
                self.attributes.setdefault(func.value.id, set()).add(f"{func.attr}()")

    def kind(self, name: str) -> Evidence:
        """What the uses of a name say; UNKNOWN if nothing."""
        if name in self.converted:
            return NO_EVIDENCE  # they are of the tensor that is made of it
        used = self.attributes.get(name, set())
        called = name in self.called and used & _MOVES  # no tensor is called
        if called or (used & MODULE_USES and name not in self.settings):
            return MODULE, frozenset({Assumption(USES, name)})
        if used & TENSOR_USES or "view()" in used or (name in self.operands and not used & _OTHER_USES):
            return TENSOR, PROVEN
        if name in self.sliced and (used | self.of_parts.get(name, set())) & _TORCH_USES:
            return TENSOR, PROVEN
        if used & _TORCH_USES and used & _SHARED_USES and not used & _OTHER_USES:
            # A bag of options may have a `device` and a `dtype` as well, beside what no tensor has.
            if all(one.removesuffix("()") in tensor_attributes() for one in used):
                return TENSOR, frozenset({Assumption(USES, name)})
        if name in self.devices and name not in self.called:
            return DEVICE, frozenset({Assumption(USES, name)})
        return NO_EVIDENCE


def _unscaled(node: ast.expr | None) -> ast.expr | None:
    """`x` of `x / 2`."""
    while isinstance(node, ast.BinOp) and (_is_number(node.right) or _is_number(node.left)):
        node = node.left if _is_number(node.right) else node.right
    return node


def _is_number(node: ast.expr) -> bool:
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float))


def _new_axis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or node.value is ...)


def _listed_in(test: ast.expr) -> set[str]:
    """`x` of `isinstance(x, (list, tuple))`."""
    if not isinstance(test, ast.Call) or not isinstance(test.func, ast.Name) or test.func.id != "isinstance":
        return set()
    if "list" not in {one.id for one in ast.walk(test) if isinstance(one, ast.Name)}:
        return set()
    return {one.id for one in test.args if isinstance(one, ast.Name)}


def speaks_of(owner: Class, *names: str) -> bool:
    """Do the own methods of a class use attributes of these names?"""
    every = (node for one in owner.methods.values() for node in one.nodes)
    return any(isinstance(node, ast.Attribute) and node.attr in names for node in every)


@remembered
def stored_names(source: Source) -> frozenset[str]:
    """The names of the attributes that the file stores."""
    return frozenset(one.attr for one in source.of_kind(ast.Attribute) if isinstance(one.ctx, ast.Store))


@remembered
def handed_or_moved(source: Source) -> frozenset[str]:
    """The names of which a function may move what they stand for: it calls their `to`, or hands them on."""
    found = set[str]()
    for node in source.of_kind(ast.Name):
        up = source.parents.get(node)
        call = source.parents.get(up) if isinstance(up, ast.keyword) else up
        moved = isinstance(up, ast.Attribute) and up.attr in ("to", "cuda", "cpu")
        if (
            moved
            or (
                isinstance(call, ast.Call)
                and call.func is not node
                and not source.code(call.func).endswith("copy")
            )
            or isinstance(up, (ast.Tuple, ast.List))
        ):
            if source.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef) is not None:
                found.add(node.id)
    return frozenset(found)


@remembered
def brought_back(source: Source) -> frozenset[str]:
    """The names of what a function moves to the CPU, so that other functions may find it there."""
    found = set[str]()
    for node in source.calls:
        func = node.func
        if (
            isinstance(func, ast.Attribute)
            and isinstance(func.value, ast.Name)
            and func.attr in ("to", "cpu")
        ):
            to_host = func.attr == "cpu" or any("cpu" in ast.unparse(one) for one in node.args)
            if to_host and source.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef) is not None:
                found.add(func.value.id)
    return frozenset(found)


def may_be_skipped(source: Source, node: ast.AST) -> bool:
    """Does a round of the innermost loop around a node go on without it?"""
    loops = (ast.For, ast.AsyncFor, ast.While)
    loop, statement = source.enclosing(node, *loops), source.statement(node)
    if loop is None:
        return False
    for up in source.ancestors(node):
        if up is loop:
            break
        if isinstance(up, ast.If) and not up.orelse:
            return True
    return any(
        one.lineno < statement.lineno and source.enclosing(one, *loops) is loop
        for one in source.of_kind(ast.Continue, loop)
    )


def renews(source: Source, target: ast.Subscript) -> bool:
    """`d[k] = ...` in a loop over the keys of `d`, or over its items: does each round replace another element?"""
    base, loop = source.code(target.value), source.enclosing(target, ast.For, ast.While)
    if not isinstance(loop, ast.For) or not isinstance(target.slice, ast.Name):
        return False
    text = source.code(loop.iter)
    over = text[5:-1] if text.startswith("list(") else text
    if isinstance(loop.target, ast.Tuple):
        return over == f"{base}.items()" and source.code(loop.target.elts[0]) == target.slice.id
    return over in (base, f"{base}.keys()") and source.code(loop.target) == target.slice.id
