"""Calls of lambdas."""

from __future__ import annotations

import ast

from devfix.engine.frame import Arguments, Frame
from devfix.engine.transfer.module_runs import ModuleRuns
from devfix.engine.values import ANYTHING, Value

MAX_LAMBDAS = 4  # that are running


class Lambdas(ModuleRuns):
    def call_lambda(self, made: ast.Lambda, frame: Frame, arguments: Arguments) -> Value:
        """What a lambda gives that was made in a run: `frame`."""
        if self.lambdas >= MAX_LAMBDAS or frame.file is not self.file:
            return ANYTHING
        kept = self.state.names
        self.state.names = kept.and_also(frame.state.names)
        self.lambdas += 1
        try:
            names, defaults = made.args.args, made.args.defaults
            told = {
                one.arg: self.eval(at) for one, at in zip(names[-len(defaults) :], defaults, strict=False)
            }
            told |= {one.arg: value for one, (value, _) in zip(names, arguments[0], strict=False)}
            told |= {name: value for name, (value, _) in arguments[1].items()}
            for name, value in told.items():
                self.state.names[name] = value
            return self.eval(made.body)
        finally:
            self.lambdas -= 1
            self.state.names = kept
