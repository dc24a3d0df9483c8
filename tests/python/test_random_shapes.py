"""600 random shapes that broadcast, layouts and axes of softmax's family and the norms, against NumPy in f64."""

from typing import Any

import numpy as np
import pytest
from kinds import Array, Random

import rapt


def broadcasting(random: Random, shape: tuple[int, ...]) -> Any:
    """A shape that broadcasts to `shape`: with dimensions of 1, or without its first ones."""
    kept = [length if random.random() < 0.6 else 1 for length in shape]
    return tuple(kept[random.integers(0, len(kept) + 1) :])


def layout(random: Random, x: Array) -> Any:
    """x in other memory: transposed, reversed, a part, or as it is."""
    choice = random.integers(0, 5)
    if choice == 0 and x.ndim > 1:
        return np.ascontiguousarray(x.T).T
    if choice == 1:
        return np.ascontiguousarray(x[..., ::-1])[..., ::-1]
    if choice == 2:
        wide = np.full((*x.shape[:-1], x.shape[-1] + 3), np.nan if x.dtype.kind == "f" else 1, x.dtype)
        wide[..., : x.shape[-1]] = x
        return wide[..., : x.shape[-1]]
    if choice == 3:
        return np.repeat(x, 2, axis=0)[::2]
    return x


def expected(x: Array, axis: int, options: dict[str, Any], name: str) -> Any:
    """softmax, its logarithm or log-sum-exp along an axis, in f64."""
    s = np.moveaxis(x.astype(np.float64), axis, -1) * options.get("scale", 1)

    def along(array: Array) -> Any:
        return np.moveaxis(np.broadcast_to(array, x.shape), axis, -1)

    if "softcap" in options:
        s = options["softcap"] * np.tanh(s / options["softcap"])
    if "bias" in options:
        s = s + along(options["bias"])
    seen = np.ones(s.shape, bool)
    if "mask" in options:
        seen &= along(options["mask"])
    columns = np.arange(s.shape[-1])
    if "row_lengths" in options:
        seen &= columns < np.broadcast_to(options["row_lengths"], s.shape[:-1])[..., None]
    if "causal" in options:
        rows = s.shape[-2] if s.ndim > 1 else 1
        begin = s.shape[-1] - rows if options["causal"] is True else 0
        seen &= columns <= np.arange(rows)[:, None] + begin if s.ndim > 1 else columns <= begin
    s = np.where(seen, s, -np.inf)
    largest = s.max(axis=-1, keepdims=True, initial=-np.inf)
    if "sinks" in options:
        sinks = np.broadcast_to(options["sinks"], s.shape[:-1])[..., None]
        largest = np.maximum(largest, sinks)
    largest = np.where(np.isfinite(largest), largest, 0)
    total = np.exp(s - largest).sum(axis=-1, keepdims=True)
    if "sinks" in options:
        total = total + np.exp(sinks - largest)
    lse = np.log(total) + largest
    if name == "logsumexp":
        return lse[..., 0]
    y = np.where(seen, s - lse, -np.inf)  # what is excluded has no share, in rows of nothing else too
    return np.moveaxis(np.exp(y) if name == "softmax" else y, -1, axis)


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
@pytest.mark.parametrize("seed", range(6))
def test_softmax_and_its_relatives(seed: int) -> None:
    random = np.random.default_rng(seed)
    for case in range(80):
        shape = tuple(random.integers(1, 7, random.integers(1, 5)))
        name = ("softmax", "log_softmax", "logsumexp")[case % 3]
        number = (np.float32, np.float64)[random.integers(0, 2)]
        axis = int(random.integers(-len(shape), len(shape)))
        x = random.normal(size=shape).astype(number)
        rows = tuple(np.delete(shape, axis))
        options: dict[str, Any] = {}
        if random.random() < 0.3:
            options["scale"] = 0.3
        if random.random() < 0.2:
            options["softcap"] = 2.0
        if random.random() < 0.5:
            options["bias"] = layout_of(random, random.normal(size=broadcasting(random, shape)).astype(number))
        if random.random() < 0.5:
            options["mask"] = layout_of(random, random.random(broadcasting(random, shape)) < 0.8)
        if random.random() < 0.4:
            options["row_lengths"] = random.integers(0, shape[axis] + 1, broadcasting(random, rows))
        if random.random() < 0.3:
            options["sinks"] = random.normal(size=broadcasting(random, rows))
        if random.random() < 0.3 and axis % len(shape) == len(shape) - 1:
            options["causal"] = (True, "top_left")[random.integers(0, 2)]
        if name != "logsumexp" and random.random() < 0.5:
            options["empty_rows_are_zero"] = True
        true = expected(x, axis, options, name)
        given = layout_of(random, x)
        result = getattr(rapt, name)(given, axis=axis, **options)
        assert result.dtype == number and result.shape == true.shape
        rtol, atol = (2e-5, 2e-6) if number == np.float32 else (1e-12, 1e-13)
        np.testing.assert_allclose(result, true, rtol, atol, err_msg=f"{name} {seed} {case} {shape} {axis} {options}")
        # Bits: as one call on contiguous rows.
        moved = np.ascontiguousarray(np.moveaxis(x, axis, -1))
        if not {"bias", "mask"} & options.keys():
            alone = getattr(rapt, name)(moved, **options)
            assert np.array_equal(
                result, alone if name == "logsumexp" else np.moveaxis(alone, -1, axis), equal_nan=True
            )
        out = layout_of(random, np.zeros(true.shape, number)) if axis % len(shape) != len(shape) - 1 else None
        if out is not None and (name != "logsumexp" or out.flags.c_contiguous):
            assert getattr(rapt, name)(given, axis=axis, out=out, **options) is out
            assert np.array_equal(out, result, equal_nan=True)


def layout_of(random: Random, x: Array) -> Any:
    return layout(random, x) if x.ndim > 0 else x


def test_norms() -> None:
    random = np.random.default_rng(7)
    for case in range(120):
        shape = tuple(random.integers(1, 9, random.integers(1, 5)))
        number, near = ((np.float32, 1e-5), (np.float64, 1e-12))[random.integers(0, 2)]
        x, residual = random.normal(size=(2, *shape)).astype(number)
        weight = random.normal(size=shape[-1]).astype(number) if random.random() < 0.7 else None
        bias = random.normal(size=shape[-1]).astype(number) if random.random() < 0.5 else None
        is_layer = case % 2 == 0
        total = x.astype(np.float64) + residual
        centred = total - total.mean(-1, keepdims=True) if is_layer else total
        true = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 0.1) * (1 if weight is None else weight)
        sums = residual.copy()
        arguments = {"eps": 0.1, "residual": sums}
        if is_layer:
            result = rapt.layer_norm(layout_of(random, x), weight, bias, **arguments)
            true = true + (0 if bias is None else bias)
        else:
            result = rapt.rms_norm(layout_of(random, x), weight, **arguments)
        np.testing.assert_allclose(result, true, rtol=near, atol=near, err_msg=f"{case} {shape}")
        assert np.array_equal(sums, x + residual) and result.dtype == number
