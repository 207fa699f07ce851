"""What ``python -m binaryrelax_native`` does: classes of images, and the time that it takes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NoReturn

import numpy as np

from .network import Array, Network, load

PROGRAM = "python -m binaryrelax_native"
BATCH = 128  # rows at a time, which the network shares out among its threads
SECONDS = 1.0  # after which a measurement is not repeated
REPETITIONS = 10
EXAMPLES = f"""examples:
  {PROGRAM} net.brx images.npy
  {PROGRAM} net.brx images.npy --top 5 --labels names.txt
  {PROGRAM} net.brx images.npy --threads 1 --profile
"""


class WrongUse(ValueError):
    """Arguments or files that do not fit each other."""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        raise WrongUse(f"{message}; --help shows what there is")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status: 0, or 2 with one line on stderr."""
    try:
        _run(_parser().parse_args(arguments))
        sys.stdout.flush()
        return 0
    except BrokenPipeError:  # who reads has seen enough, as `| head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return _complain("interrupted", 130)
    except OSError as error:
        named = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return _complain(named, 2)
    except (ValueError, MemoryError) as error:
        return _complain(str(error) or "not enough memory", 2)


def _complain(message: str, status: int) -> int:
    sys.stderr.write(f"binaryrelax_native: {_visible(' '.join(message.split()))}\n")
    return status


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=PROGRAM,
        description="Show the classes that a network finds in images, and the time it takes.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("network", help="a file that export_native has written")
    parser.add_argument(
        "images",
        nargs="+",
        help="an .npy file for each input of the network: float32 (N, C, H, W) or (N, F), as in "
        "training; or bytes (N, H, W, C), where the file says how to normalise them",
    )
    parser.add_argument("--top", type=int, default=1, help="classes per image, best first; 1")
    parser.add_argument("--labels", help="a text file with the name of a class in each line")
    parser.add_argument("--threads", type=int, help="at most so many; as many as CPUs if not given")
    parser.add_argument(
        "--profile", action="store_true", help="show the time of each step, in one thread"
    )
    return parser


def _run(options: argparse.Namespace) -> None:
    if options.top < 1:
        raise WrongUse(f"--top {options.top}: must be 1 or more")
    labels = None if options.labels is None else _labels(options.labels)
    begin = perf_counter()
    network = load(options.network, threads=options.threads)
    loaded = perf_counter() - begin
    inputs = _inputs(network, options.images)
    outputs = [_as_list(network(*rows)) for rows in _batches(inputs)]  # plans are made here
    joined = [np.concatenate(parts) for parts in zip(*outputs, strict=True)]
    for line in _answers(joined, labels, options.top):
        _say(line)
    _say(_time_told(network, inputs))
    _say(
        f"{network.threads} thread{'s' * (network.threads > 1)}, {network.instruction_set}, "
        f"mode {network.mode}; the file was loaded in {1e3 * loaded:.1f} ms"
    )
    if options.profile:
        for line in _profile_table(network, [x[:BATCH] for x in inputs]):
            _say(line)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _visible(text: str) -> str:
    """Words of a file with control characters escaped, which a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _labels(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise WrongUse(f"--labels {path} is no text in UTF-8") from None


def _inputs(network: Network, paths: Sequence[str]) -> list[Array]:
    """What the network takes, from the files."""
    if len(paths) != len(network.input_shapes):
        raise WrongUse(
            f"{len(paths)} files of images are given, and the network takes "
            f"{len(network.input_shapes)}, one for each input"
        )
    pairs = zip(paths, network.input_shapes, strict=True)
    inputs = [_input(path, shape, network.about) for path, shape in pairs]
    if len({len(x) for x in inputs}) > 1:
        raise WrongUse(f"the inputs have {[len(x) for x in inputs]} rows; all must have as many")
    return inputs


def _input(path: str, shape: tuple[int, ...], about: dict[str, str]) -> Array:
    """The array of a file as the network takes it; `shape` is that of the example."""
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError):
        array = None
    if not isinstance(array, np.ndarray):  # an .npz file gives something else
        raise WrongUse(f"{path} is no intact .npy file; numpy.save writes one")
    if array.dtype == np.uint8 and len(shape) == 3:
        array = _normalised(path, array, shape, about)
    if array.ndim == len(shape):  # one image
        array = array[None]
    wanted = f"float32 ({', '.join(map(str, ('N', *shape)))})"
    if array.dtype.kind != "f":
        raise WrongUse(
            f"{path} holds {array.dtype}; the network takes {wanted}, normalised as in training"
        )
    if array.ndim != 1 + len(shape) or array.shape[1] != shape[0] or array.size == 0:
        is_last = len(shape) == 3 and array.ndim == 4 and array.shape[3] == shape[0]
        hint = "; numpy.transpose(images, (0, 3, 1, 2)) puts channels first" if is_last else ""
        raise WrongUse(f"{path} has the shape {array.shape}; the network takes {wanted}{hint}")
    return np.ascontiguousarray(array, np.float32)


def _normalised(path: str, pixels: Any, shape: tuple[int, ...], about: dict[str, str]) -> Array:
    """Bytes (N, H, W, C) as the file says that the network was shown them."""
    told = [about.get(name, "").split() for name in ("mean", "deviation")]
    if not all(told):
        raise WrongUse(
            f"{path} holds bytes, and the file does not say how the network wants them; give "
            f"float32 (N, {', '.join(map(str, shape))}), normalised as in training"
        )
    try:
        mean, deviation = (np.array([float(word) for word in words], np.float32) for words in told)
    except ValueError:
        raise WrongUse(
            f"the network's mean {about['mean']!r} and deviation {about['deviation']!r} are no "
            "numbers; give images that are normalised"
        ) from None
    channels = shape[0]
    if len(mean) != channels or len(deviation) != channels or not np.all(deviation > 0):
        raise WrongUse(
            f"the network's mean {about['mean']!r} and deviation {about['deviation']!r} do not "
            f"fit {channels} channels; give images that are normalised"
        )
    grey = channels == 1 and pixels.shape[-1:] != (1,)
    images = pixels[..., None] if grey else pixels
    if images.ndim not in (3, 4) or images.shape[-1] != channels:
        raise WrongUse(
            f"{path} holds bytes of the shape {pixels.shape}; they must be (N, H, W, {channels})"
        )
    scaled = (images.astype(np.float32) / 255 - mean) / deviation
    return np.moveaxis(scaled, -1, -3)


def _batches(inputs: Sequence[Array]) -> Iterator[list[Array]]:
    for start in range(0, len(inputs[0]), BATCH):
        yield [x[start : start + BATCH] for x in inputs]


def _as_list(outputs: Any) -> list[Array]:
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


def _answers(outputs: list[Array], labels: list[str] | None, top: int) -> Iterator[str]:
    """A line for each image; of a network that does not give classes, one for each output."""
    if len(outputs) == 1 and outputs[0].ndim == 2:
        yield from _classes(outputs[0], labels, top)
        return
    if labels is not None:
        raise WrongUse("--labels: the network gives no scores of classes")
    for number, output in enumerate(outputs):
        yield (
            f"output {number}: float32 {output.shape}, from {output.min():.4g} to "
            f"{output.max():.4g}"
        )


def _classes(scores: Array, labels: list[str] | None, top: int) -> Iterator[str]:
    count = scores.shape[1]
    if labels is not None and len(labels) != count:
        raise WrongUse(f"--labels has {len(labels)} names, and the network has {count} classes")
    names = [f"class {k}" for k in range(count)] if labels is None else map(_visible, labels)
    known = list(names)
    are_probabilities = scores.min() >= 0 and np.allclose(scores.sum(1), 1, atol=1e-3)
    for number, row in enumerate(scores):
        best = np.argsort(-row, kind="stable")[:top]
        found = ", ".join(f"{known[k]} {row[k]:.4f}" for k in best)
        yield f"image {number}: {found}"
    yield "numbers are " + (
        "probabilities" if are_probabilities else "logits: the network ends without softmax"
    )


def _time_told(network: Network, inputs: list[Array]) -> str:
    times: list[float] = []
    end = perf_counter() + SECONDS
    while not times or (len(times) < REPETITIONS and perf_counter() < end):
        begin = perf_counter()
        for rows in _batches(inputs):
            network(*rows)
        times.append(perf_counter() - begin)
    count, least = len(inputs[0]), 1e3 * min(times)
    told = f"{count} images in {least:.2f} ms, {least / count:.3f} ms each"
    return f"{told if count > 1 else f'1 image in {least:.3f} ms'} (least of {len(times)})"


def _profile_table(network: Network, inputs: list[Array]) -> Iterator[str]:
    """The least time of each step, and its share of all."""
    runs = [network.profile(*inputs) for _ in range(REPETITIONS)]
    steps = [(runs[0][k][0], min(run[k][1] for run in runs)) for k in range(len(runs[0]))]
    total = sum(time for _, time in steps)
    width = max(len(_visible(name)) for name, _ in steps)
    yield f"steps, in one thread, {len(inputs[0])} image{'s' * (len(inputs[0]) > 1)} at once:"
    for name, time in steps:
        yield f"  {_visible(name):<{width}}  {time:9.4f} ms  {time / max(total, 1e-12):6.1%}"
    yield f"  {'all':<{width}}  {total:9.4f} ms"
