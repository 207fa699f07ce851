"""`binaryrelax certify`: are the weights of this file really 1 bit?"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from binaryrelax import Certificate, certify as certify_file
from binaryrelax.cli.console import say, visible
from binaryrelax.cli.errors import one_line_errors
from binaryrelax.cli.options import DataOption, DebugOption, DownloadOption
from binaryrelax.cli.plugins import Plugins

MOST_LEVELS = 7  # of a codebook that is shown in full


def certify(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A packed network.")],
    against: Annotated[
        Path | None,
        typer.Option(help="Another packed network; every packed layer must be the same in both."),
    ] = None,
    accuracy: Annotated[
        bool, typer.Option("--accuracy", help="Also try the network on all test images.")
    ] = False,
    data: DataOption = None,
    download: DownloadOption = False,
    debug: DebugOption = False,
) -> None:
    """Show what a packed file holds, layer by layer, counted from its bytes.

    Exits with status 1 and names the first layer that does not hold what the file says, or differs
    from that of the other file.

    Examples:

        binaryrelax certify binary.safetensors

        binaryrelax certify binary.brx --against binary.safetensors

        binaryrelax certify networks/cifar10-resnet20-binary-tuned.safetensors --accuracy --data DIR
    """
    console = Console()
    if (data or download) and not accuracy:
        raise typer.BadParameter("images are for --accuracy, which is not there")
    with one_line_errors(context, debug):
        certificate = certify_file(file, against)
        # Missing images are an error before the table, not after it.
        plugins = context.obj.plugins
        trial = _trial(plugins, file, data, download) if accuracy and certificate.ok else None
        if certificate.layers:
            table = _table(certificate)
            # Figures cut off at the edge of a narrow terminal would be worse than wrapped lines.
            wide = Console(width=max(console.width, 140))
            wide.print(table, soft_wrap=True)
        if not certificate.ok:
            raise ValueError(certificate.reason)
        for line in _summary(certificate):
            say(console, line)
        if against is not None:
            say(console, f"equal     every packed layer is that of {visible(str(against))}")
        if trial:
            percent, num_images = trial()
            say(console, f"accuracy  {percent:.2f} % of {num_images:,} test images")


def _trial(
    plugins: Plugins, file: Path, data: Path | None, download: bool
) -> Callable[[], tuple[float, int]]:
    """Loads network and images; what it gives tries the one on the others."""
    network = plugins.find_network(file)
    if network is None:
        raise ValueError(
            f"{file} does not say which network it holds, or of one that nobody here can build "
            "(binaryrelax-lab knows those of its recipes): --accuracy cannot try it"
        )
    return network.accuracy(data, download)


def _table(certificate: Certificate) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    headings = ("Layer", "Shape", "Codebook", "Scales", "Distinct", "Zeros", "Bits/weight")
    for position, heading in enumerate((*headings, "Bytes", "Saving", "SHA-256")):
        table.add_column(heading, justify="right" if position > 2 else "left", no_wrap=True)
    for layer in certificate.layers:
        table.add_row(
            Text(visible(layer.name)),
            "x".join(str(n) for n in layer.shape),
            _levels(layer.codebook),
            f"{layer.scales:,}",
            str(layer.distinct_values),
            f"{layer.zeros:.1%}",
            f"{layer.bits_per_weight:.3f}",
            f"{layer.num_bytes:,}",
            f"{layer.saving:.1f}x",
            layer.digest[:12],
        )
    return table


def _levels(codebook: tuple[float, ...]) -> str:
    if len(codebook) > MOST_LEVELS:
        return f"{codebook[0]:g} .. {codebook[-1]:g} ({len(codebook)})"
    return " ".join(f"{level:+g}" if level else "0" for level in codebook)


def _summary(certificate: Certificate) -> list[str]:
    widest = max(layer.distinct_values for layer in certificate.layers)
    floats = sum(certificate.float_tensors.values())
    about = ", ".join(f"{key} {value}" for key, value in sorted(certificate.about.items()))
    return [
        *([f"about     {visible(about)}"] if about else []),
        f"certified {len(certificate.layers)} layers; no scale has more than {widest} different "
        "weights",
        f"float     {floats:,} values in {len(certificate.float_tensors)} tensors that are not "
        f"packed, {1 - certificate.packed_share:.1%} of the network (biases, normalization, layers "
        "kept float)",
        f"size      {certificate.file_bytes:,} bytes, {certificate.saving:.1f} times less than "
        f"{certificate.float32_bytes:,} in float32",
    ]
