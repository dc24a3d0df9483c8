import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kinds import Call, OnEachLevel, Random

import rapt
from rapt import _threads


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the tests of rapt.torch.enable(), which take minutes, those of RAPT_TEST_SHARE: 0/3 is the first third."""
    share, shares = map(int, os.environ.get("RAPT_TEST_SHARE", "0/1").split("/"))
    shared = [item for item in items if item.path.stem in ("test_torch_enable", "test_torch_models", "test_torch_ways")]
    left_out = [item for i, item in enumerate(shared) if i % shares != share]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def random() -> Random:
    return np.random.default_rng(1)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which all runs of mypy keep what they read."""
    return tmp_path_factory.mktemp("mypy")


@pytest.fixture(autouse=True)
def new_memory_is_not_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """What np.empty returns is NaN in every type of floating point: a result that nothing wrote shows."""
    empty = np.empty

    def filled(*arguments: Any, **options: Any) -> Any:
        array = empty(*arguments, **options)
        if array.dtype.kind != "O":
            array.reshape(-1).view(np.uint8)[...] = 255
        return array

    monkeypatch.setattr(np, "empty", filled)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many threads each call has asked for, besides the caller."""
    counts: list[int] = []
    submit = _threads._submit

    def counted(work: Any, count: int) -> None:
        counts.append(count)
        submit(work, count)

    monkeypatch.setattr(_threads, "_submit", counted)
    return counts


@pytest.fixture
def on_each_level() -> OnEachLevel:
    """f() on every level of this CPU, whose results must have the same bits."""

    def bits(x: Any) -> Any:
        return [bits(part) for part in x] if isinstance(x, tuple) else np.asarray(x).tobytes()

    def check(f: Call) -> Any:
        try:
            results = {}
            for name, usable in rapt.isas().items():
                if usable:
                    rapt.force_isa(name)
                    results[name] = f()
            expected = bits(results["scalar"])
            for name, result in results.items():
                assert bits(result) == expected, name
            return results["scalar"]
        finally:
            rapt.force_isa(None)

    return check
