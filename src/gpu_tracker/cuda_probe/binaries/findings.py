"""What was found in a file, as JSON: enough to answer the same questions again without the file."""

from __future__ import annotations

import json

from gpu_tracker.cuda_probe.binaries.cubin import Kernel, KernelVariant

_FORM = 1  # raised when what is written here, or how a figure is found, changes


class Findings:
    """The functions and kernels of one file that somebody has asked for."""

    def __init__(self) -> None:
        self.functions: dict[int, tuple[str, ...]] = {}
        """The mangled names of the functions that begin at an address, as the file counts addresses."""
        self.kernels: dict[str, Kernel | None] = {}
        """The kernel that the program launches as a function, by the function's mangled name; None: it has none."""
        self.changed = False
        """Whether anything was added since they were kept."""

    def as_json(self) -> str:
        """Return the text that ``findings_from`` reads."""
        content = {
            'form': _FORM,
            'functions': {f'{address:x}': names for address, names in self.functions.items()},
            'kernels': self.kernels,  # tuples become lists
        }
        return json.dumps(content, separators=(',', ':'))


def findings_from(text: str) -> Findings | None:
    """Return what ``as_json`` has written, None where the text is anything else."""
    findings = Findings()
    try:
        content = json.loads(text)
        if content['form'] != _FORM:
            return None
        for address, names in content['functions'].items():
            findings.functions[int(address, 16)] = tuple(_text(name) for name in names)
        for function, kernel in content['kernels'].items():
            findings.kernels[function] = None if kernel is None else _kernel(kernel)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None  # cut short by a crash, or written by another version
    return findings


def _kernel(fields: list[object]) -> Kernel:
    symbol, name, variants = fields
    if not isinstance(variants, list):
        raise TypeError
    return Kernel(_text(symbol), _text(name), tuple(_variant(variant) for variant in variants))


def _variant(fields: list[object]) -> KernelVariant:
    sm, feature, *figures = fields
    known = [figure if figure is None else _number(figure) for figure in figures]
    return KernelVariant(_number(sm), _text(feature), *known)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError
    return value
