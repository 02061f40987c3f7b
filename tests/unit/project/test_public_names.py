from __future__ import annotations

import pkgutil

import pytest

import gpu_tracker


def test_every_public_name_is_there() -> None:
    assert dir(gpu_tracker) == sorted(gpu_tracker.__all__)
    assert all(getattr(gpu_tracker, name) is getattr(gpu_tracker, name) for name in gpu_tracker.__all__)


def test_no_module_takes_the_place_of_a_public_name_once_it_is_imported() -> None:
    assert {module.name for module in pkgutil.iter_modules(gpu_tracker.__path__)}.isdisjoint(gpu_tracker.__all__)


def test_ipython_finds_its_extension() -> None:
    assert gpu_tracker.load_ipython_extension.__module__ == 'gpu_tracker.notebook.magics'
    assert gpu_tracker.unload_ipython_extension.__module__ == 'gpu_tracker.notebook.magics'


def test_no_other_name_is() -> None:
    with pytest.raises(AttributeError, match="module 'gpu_tracker' has no attribute 'Trackers'"):
        _ = gpu_tracker.Trackers
