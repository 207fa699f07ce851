"""Packed codes and what their products should be, in numpy float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


def pack(codes: np.ndarray, bits: int) -> np.ndarray:
    """The canonical layout: LSB first, rows padded with zero bits to whole bytes."""
    planes = (codes[:, :, None] >> np.arange(bits)) & 1
    rows = planes.reshape(len(codes), codes.shape[1] * bits).astype(np.uint8)
    return np.packbits(rows, axis=1, bitorder="little")


def weights_of(codes: np.ndarray, bits: int) -> np.ndarray:
    return 2.0 * codes - 1.0 if bits == 1 else codes - 1.0


def random_codes(rng: np.random.Generator, shape: tuple[int, int], bits: int) -> np.ndarray:
    return rng.integers(0, 2 if bits == 1 else 3, shape)


def byte_values(x: np.ndarray) -> tuple[np.ndarray, float]:
    """The values that fast mode makes of the activations that share a scale."""
    largest = np.abs(x).max(initial=0.0)
    if not np.isfinite(largest):
        return np.zeros_like(x), np.nan
    if largest == 0:
        return np.zeros_like(x), 0.0
    return np.rint(x.astype(np.float32) * (np.float32(127) / np.float32(largest))), largest / 127


@dataclass(frozen=True)
class Window:
    """The geometry of a convolution; pairs are (vertical, horizontal)."""

    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        sizes = zip(
            (height, width), self.kernel, self.stride, self.padding, self.dilation, strict=True
        )
        rows, columns = ((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sizes)
        return rows, columns


def convolve(x: np.ndarray, weights: np.ndarray, window: Window) -> np.ndarray:
    """NHWC convolution, tap by tap, in float64; `weights` are (out, in of a group, kh, kw)."""
    images, height, width, channels = x.shape
    (ph, pw), (sh, sw), (dh, dw) = window.padding, window.stride, window.dilation
    rows, columns = window.output_size(height, width)
    padded = np.zeros((images, height + 2 * ph, width + 2 * pw, channels))
    padded[:, ph : ph + height, pw : pw + width] = x
    outputs, inputs = weights.shape[:2]
    per_group = outputs // window.groups
    y = np.zeros((images, rows, columns, outputs))
    for i in range(window.kernel[0]):
        for j in range(window.kernel[1]):
            tap = padded[:, i * dh :: sh, j * dw :: sw][:, :rows, :columns]
            for group in range(window.groups):
                out = slice(group * per_group, (group + 1) * per_group)
                part = tap[..., group * inputs : (group + 1) * inputs]
                y[..., out] += part @ weights[out, :, i, j].T
    return y


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    norm = np.linalg.norm(expected)
    difference = np.linalg.norm(found.astype(np.float64) - expected)
    return float(difference / norm) if norm else float(difference)


def assert_within(found: np.ndarray, expected: np.ndarray, terms: np.ndarray) -> None:
    """No output is further off than rounding explains; `terms` are the sums of absolute values."""
    worst = np.max(np.abs(found - expected) - (2e-6 * terms + 1e-30), initial=0.0)
    assert worst <= 0, f"off by {worst} more than rounding explains"
