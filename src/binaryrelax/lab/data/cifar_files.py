"""Where the official files of CIFAR lie: loose in a folder, or in an archive."""

import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from binaryrelax.lab.data.cifar_layout import Layout

LARGEST_FILE = 1 << 28  # bytes; a forged archive must not fill the memory


@dataclass(frozen=True)
class CifarFiles:
    """The files of a layout, in the folder or archive at `path`."""

    layout: Layout
    path: Path

    def read(self) -> dict[str, bytes]:
        """The content of every file, by its name; a `ValueError` names one that is not there."""
        contents = dict(self._from_folder() if self.path.is_dir() else self._from_archive())
        for name in self.layout.files:
            if name not in contents:
                raise ValueError(f"{self.describe(name)} is missing; delete {self.path}")
        return contents

    def describe(self, name: str) -> str:
        """Where a file is, for people."""
        return f"{self.path / name}" if self.path.is_dir() else f"{name} in {self.path}"

    def _from_folder(self) -> Iterator[tuple[str, bytes]]:
        for name in self.layout.files:
            path = self.path / name
            if path.is_file():
                try:
                    yield name, path.read_bytes()
                except OSError as error:
                    raise ValueError(f"{path} cannot be read ({error.strerror})") from error

    def _from_archive(self) -> Iterator[tuple[str, bytes]]:
        """Reads the archive once, from beginning to end, into memory; nothing is unpacked."""
        wanted = {f"{self.layout.folder}/{name}": name for name in self.layout.files}
        try:
            with tarfile.open(self.path, "r|gz") as archive:
                for member in archive:
                    if member.name in wanted and member.isfile() and member.size < LARGEST_FILE:
                        yield wanted[member.name], archive.extractfile(member).read()
        except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
            raise ValueError(f"{self.path} is damaged ({error}); delete it") from error


def find_files(layouts: tuple[Layout, ...], data: Path) -> CifarFiles | None:
    """The first layout that `data` is or holds, if any; loose files are preferred to archives."""
    for layout in layouts:
        for folder in (data, data / layout.folder):
            if any((folder / name).is_file() for name in layout.files):
                return CifarFiles(layout, folder)
    for layout in layouts:
        for archive in (data, data / layout.archive):
            if archive.name == layout.archive and archive.is_file():
                return CifarFiles(layout, archive)
    return None
