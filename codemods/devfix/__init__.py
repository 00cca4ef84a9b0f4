"""devfix finds and fixes device bugs in PyTorch programs."""

# With `python -m devfix`, the folder it is run in is the first to be looked in until __main__.py has taken it out: an
# import here, even of Python's own typing, may be of a file of the repository.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from devfix.library import (
        Checked,
        DevfixError,
        Finding,
        Fixed,
        FixedFile,
        Problem,
        Safety,
        check,
        fix,
    )

__version__ = "0.1.0"
__all__ = [
    "Checked",
    "DevfixError",
    "Finding",
    "Fixed",
    "FixedFile",
    "Problem",
    "Safety",
    "__version__",
    "check",
    "fix",
]


def __getattr__(name: str) -> object:
    """The public names come from `devfix.library` when one is used: the command line needs none of them."""
    if name in __all__:
        from devfix import library

        return getattr(library, name)
    raise AttributeError(f"module 'devfix' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
