"""Files as authors of codemods write them, and what a run of devfix gives."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


RULE = '''\
import ast
from dataclasses import dataclass

from devfix.api import Codemod, Example, Finding, ReplaceExpression, ReplaceText, Safety


@dataclass(frozen=True)
class NoAlpha(Codemod):
    """A name is not alpha.

    ## What it does
    Renames.

    ## Why is this bad?
    It is the first.

    ## Fix safety
    Safe.
    """

    to: str = "beta"

    id = "no-alpha"
    words = (("alpha",),)
    examples = (
        Example("One", "alpha = 1  # one\\nprint(alpha)\\n", "beta = 1  # one\\nprint(beta)\\n"),
        Example("None", "print(2)\\n"),
    )

    def check(self, flow):
        for node in flow.source.walk():
            if isinstance(node, ast.Name) and node.id == "alpha":
                span = flow.source.span(node)
                yield self.finding(
                    span, "`alpha` is no name", title=f"use `{self.to}`", edits=(ReplaceExpression(span, self.to),)
                )
'''
WHOLE = '''\
from dataclasses import dataclass

from devfix.api import NewText, Safety, TextCodemod


@dataclass(frozen=True)
class Shout(TextCodemod):
    """It is said in capitals.

    As the title says.
    """

    word: str = "alpha"

    id = "shout"

    def new_text(self, path, text):
        remarks = ("nothing to shout",) if self.word not in text else ()
        return NewText(text.replace(self.word, self.word.upper()), remarks)
'''
CRASHES = '''
class Base(Codemod):
    words = ()
    examples = ()


@dataclass(frozen=True)
class Crash(Base):
    """It crashes."""

    id = "crash"

    def check(self, flow):
        yield from ()
        return undefined_name


@dataclass(frozen=True)
class Broken(Base):
    """Its result is no program."""

    id = "broken"

    def check(self, flow):
        for node in flow.source.walk():
            if isinstance(node, ast.Name) and node.id == "odd":
                span = flow.source.span(node)
                yield self.finding(span, "odd", title="break it", edits=(ReplaceText(span, ")("),))


@dataclass(frozen=True)
class Endless(Base):
    """It is never content."""

    id = "endless"

    def check(self, flow):
        for node in flow.source.walk():
            if isinstance(node, ast.Name) and node.id.startswith("loop"):
                span = flow.source.span(node)
                yield self.finding(span, "short", title="grow", edits=(ReplaceText(span, node.id + "p"),))


@dataclass(frozen=True)
class Outside(Base):
    """It points at nothing."""

    id = "outside"

    def check(self, flow):
        from devfix.api import Span

        yield self.finding(Span(0, 10**6), "far away")
'''
LIBCST = '''\
import libcst as cst
from libcst.codemod import CodemodCommand, SkipFile, VisitorBasedCodemodCommand
from libcst.codemod.visitors import AddImportsVisitor
from libcst.metadata import (
    FullyQualifiedNameProvider,
    ParentNodeProvider,
    QualifiedNameProvider,
    TypeInferenceProvider,
)


class RenameCommand(VisitorBasedCodemodCommand):
    DESCRIPTION = "Rename a function"

    @staticmethod
    def add_args(parser):
        parser.add_argument("--old", dest="old", required=True, help="the name that goes")
        parser.add_argument("--new-name", dest="new", default="fresh")
        parser.add_argument("--also", nargs="*", default=[])
        parser.add_argument("--import", dest="add", action="store_true")
        parser.add_argument("--times", type=int, default=1)

    def __init__(self, context, old, new, also, add, times):
        super().__init__(context)
        self.names, self.new, self.add, self.times = [old, *also], new, add, times

    def leave_Name(self, original_node, updated_node):
        if updated_node.value not in self.names:
            return updated_node
        if self.add:
            AddImportsVisitor.add_needed_import(self.context, "elsewhere", self.new)
        return updated_node.with_changes(value=self.new * self.times)


class RenameTooCommand(RenameCommand):
    pass


class TryCommand(CodemodCommand):
    """Two hunks of which neither can be alone."""

    def transform_module_impl(self, tree):
        return cst.parse_module(tree.code.replace("try:", "if 1:").replace("except E:", "else:"))


class WhereCommand(VisitorBasedCodemodCommand):
    """Writes what it knows of the file into it."""

    def leave_SimpleString(self, original_node, updated_node):
        found = f"{self.context.full_module_name} {self.context.full_package_name} {self.context.filename}"
        return updated_node.with_changes(value=repr(found))


class QualifiedCommand(VisitorBasedCodemodCommand):
    METADATA_DEPENDENCIES = (FullyQualifiedNameProvider, QualifiedNameProvider, ParentNodeProvider)

    def leave_FunctionDef(self, original_node, updated_node):
        (name,) = self.get_metadata(FullyQualifiedNameProvider, original_node)
        return updated_node.with_changes(name=cst.Name(name.name.replace(".", "_")))


class TypedCommand(VisitorBasedCodemodCommand):
    METADATA_DEPENDENCIES = (TypeInferenceProvider,)


class AppendCommand(CodemodCommand):
    """Not idempotent: one more statement each time."""

    def transform_module_impl(self, tree):
        return tree.with_changes(body=[*tree.body, cst.parse_statement("more()")])


class Uncommented(CodemodCommand):
    def transform_module_impl(self, tree):
        return tree.visit(_Uncomment())


class _Uncomment(cst.CSTTransformer):
    def leave_Comment(self, original_node, updated_node):
        return updated_node.with_changes(value="# gone")


class CrashCommand(VisitorBasedCodemodCommand):
    def visit_Pass(self, node):
        raise KeyError("oh")


class NakedCommand(VisitorBasedCodemodCommand):
    """What its constructor takes is known to nobody else"""

    def __init__(self, context, text, twice: bool, often: int = 1):
        super().__init__(context)
        self.text = text * (2 if twice else 1) * often

    def leave_Integer(self, original_node, updated_node):
        return updated_node.with_changes(value=self.text)


class SkippingCommand(VisitorBasedCodemodCommand):
    def visit_Module(self, node):
        self.warn("look at this file yourself")
        raise SkipFile("not mine")


class Plain(cst.CSTTransformer):
    pass
'''
BOWLER = """\
import sys
from bowler import Query


def main():
    print("something for a terminal")
    Query("nowhere/at/all").select_function("old").rename("new").idiff()
    Query("nowhere/at/all").select_function("new").rename("newer").write()
"""
