"""The constructs that a value goes through on its way."""

from __future__ import annotations

from collections.abc import Callable

from proof.writing import Maker, Site


def through(m: Maker, value: str) -> tuple[list[str], str, str]:
    """Statements, an expression with the same value, and the name of the construct."""
    construct = m.pick.choice([*_WAYS, "plain", "plain"])
    if construct == "plain":
        return [], value, construct
    before, made = _WAYS[construct](m, value)
    return before, made, construct


def through_site(m: Maker, kind: str, right: str, wrong: str) -> tuple[list[str], str]:
    """Statements and an expression: the value of a new site, after a random construct."""
    mark = m.site(kind, right, wrong)
    number = len(m.sites) - 1
    before, value, way = through(m, mark)
    m.sites[number] = Site(kind, way, right, wrong)
    return before, value


def _local(m: Maker, value: str) -> tuple[list[str], str]:
    n = m.name()
    return [f"{n} = {value}"], n


def _helper(m: Maker, value: str) -> tuple[list[str], str]:
    f, n = m.name(), m.name()
    m.define(f"def {f}({n}):\n    return {m.one(n, f'{n} * 1', f'{n}.contiguous()', f'({n} + 0)')}")
    return [], f"{f}({value})"


def _chain(m: Maker, value: str) -> tuple[list[str], str]:
    f, g, n, k = m.name(), m.name(), m.name(), m.name()
    m.define(f"def {f}({n}, flag=False):\n    if flag:\n        return -{n}\n    return {n}")
    m.define(f"def {g}({k}):\n    {n} = {f}({k})\n    return {n}")
    return [], f"{g}({value})"


def _tuple(m: Maker, value: str) -> tuple[list[str], str]:
    n, k = m.name(), m.name()
    return [f"{n} = ({value}, 1)", f"{k}, _ = {n}"], k


def _list(m: Maker, value: str) -> tuple[list[str], str]:
    n = m.name()
    return (
        [f"{n} = [{value}]"] if m.pick.random() < 0.5 else [f"{n} = []", f"{n}.append({value})"]
    ), f"{n}[0]"


def _dict(m: Maker, value: str) -> tuple[list[str], str]:
    n = m.name()
    if m.pick.random() < 0.5:
        return [f"{n} = {{'k': {value}}}"], f"{n}['k']"
    return [f"{n} = {{}}", f"{n}['k'] = {value}"], f"{n}['k']"


def _dataclass(m: Maker, value: str) -> tuple[list[str], str]:
    c, n, k = "C" + m.name(), m.name(), m.name()
    m.define(f"@dataclass\nclass {c}:\n    {k}: torch.Tensor\n    count: int = 0")
    return [f"{n} = {c}({m.one('', k + '=')}{value})"], f"{n}.{k}"


def _named_tuple(m: Maker, value: str) -> tuple[list[str], str]:
    c, n, k = "C" + m.name(), m.name(), m.name()
    m.define(f"class {c}(NamedTuple):\n    {k}: torch.Tensor\n    count: int = 0")
    return [f"{n} = {c}({value})"], m.one(f"{n}.{k}", f"{n}[0]")


def _closure(m: Maker, value: str) -> tuple[list[str], str]:
    f, n = m.name(), m.name()
    return [f"{n} = {value}", f"def {f}():", f"    return {n}"], f"{f}()"


def _lambda(m: Maker, value: str) -> tuple[list[str], str]:
    f, n = m.name(), m.name()
    return [f"{n} = {value}", f"{f} = lambda: {n}"], f"{f}()"


def _partial(m: Maker, value: str) -> tuple[list[str], str]:
    f, n, p = m.name(), m.name(), m.name()
    m.define(f"def {f}({n}, other=None):\n    return {n}")
    return [f"{p} = functools.partial({f}, other=2)"], f"{p}({value})"


def _try(m: Maker, value: str) -> tuple[list[str], str]:
    n = m.name()
    return ["try:", f"    {n} = {value}", "except KeyError:", "    raise"], n


def _with(m: Maker, value: str) -> tuple[list[str], str]:
    n = m.name()
    return ["with torch.enable_grad():", f"    {n} = {value}"], n


def _flag(m: Maker, value: str) -> tuple[list[str], str]:
    n, k = m.name(), m.name()
    return [f"{k} = True", f"{n} = 0", f"if {k}:", f"    {n} = {value}"], n


def _second_round(m: Maker, value: str) -> tuple[list[str], str]:
    n, k = m.name(), m.name()
    return [f"{n} = {k} = None", "for _ in range(2):", f"    {k} = {n}", f"    {n} = {value}"], k


def _choice(m: Maker, value: str) -> tuple[list[str], str]:
    n, k = m.name(), m.name()
    return [f"{k} = None", f"{n} = {value} if {k} is None else {k}"], n


def _comprehension(m: Maker, value: str) -> tuple[list[str], str]:
    n, k = m.name(), m.name()
    return [f"{n} = [{k} for {k} in ({value},)]"], f"{n}[0]"


def _keywords(m: Maker, value: str) -> tuple[list[str], str]:
    f, n = m.name(), m.name()
    m.define(f"def {f}(**kwargs):\n    return kwargs['{n}']")
    return [], f"{f}({n}={value})"


def _stars(m: Maker, value: str) -> tuple[list[str], str]:
    f, n = m.name(), m.name()
    m.define(f"def {f}(*args):\n    return args[0]")
    return [f"{n} = ({value}, 3)"], f"{f}(*{n})"


def _generator(m: Maker, value: str) -> tuple[list[str], str]:
    f, n = m.name(), m.name()
    m.define(f"def {f}({n}):\n    yield {n}")
    return [], f"next(iter({f}({value})))"


def _walrus(m: Maker, value: str) -> tuple[list[str], str]:
    n = m.name()
    return [f"if ({n} := {value}) is None:", "    raise ValueError"], n


def _holder(m: Maker, value: str) -> tuple[list[str], str]:
    c, n, k = "C" + m.name(), m.name(), m.name()
    m.define(
        f"class {c}:\n    def __init__(self, {n}):\n        self._{n} = {n}\n\n    @property\n"
        f"    def {k}(self):\n        return self._{n}"
    )
    return [], f"{c}({value}).{k}"


def _early(m: Maker, value: str) -> tuple[list[str], str]:
    f, n, k = m.name(), m.name(), m.name()
    m.define(f"def {f}({n}, {k}=None):\n    if {k} is not None:\n        return {k}\n    return {n}")
    return [], f"{f}({value})"


def _static(m: Maker, value: str) -> tuple[list[str], str]:
    c, f, n = "C" + m.name(), m.name(), m.name()
    how = m.one("staticmethod", "classmethod")
    first = "cls, " if how == "classmethod" else ""
    m.define(f"class {c}:\n    @{how}\n    def {f}({first}{n}):\n        return {n}")
    return [], f"{c}.{f}({value})"


def _zipped(m: Maker, value: str) -> tuple[list[str], str]:
    n, k = m.name(), m.name()
    head = m.one(f"for {k}, _ in zip([{value}], range(1)):", f"for _, {k} in enumerate([{value}]):")
    return [f"{n} = None", head, f"    {n} = {k}"], n


_WAYS: dict[str, Callable[[Maker, str], tuple[list[str], str]]] = {
    "local": _local, "helper": _helper, "two helpers": _chain, "tuple": _tuple, "list": _list, "dict": _dict,
    "dataclass": _dataclass, "NamedTuple": _named_tuple, "closure": _closure, "lambda": _lambda,
    "partial": _partial, "try": _try, "with": _with, "constant flag": _flag, "second round": _second_round,
    "conditional": _choice, "comprehension": _comprehension, "**kwargs": _keywords, "*args": _stars,
    "generator": _generator, "walrus": _walrus, "property": _holder, "early return": _early,
    "static method": _static, "zip": _zipped,
}  # fmt: skip
