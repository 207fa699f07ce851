"""Moving files between machines in small pieces: split into parts, checked, joined again."""

import hashlib
import io
import tarfile
from dataclasses import dataclass
from pathlib import Path

PART_BYTES = 15 << 20  # of a file; headers included
PARTS_PER_BATCH = 4  # 60 MiB
MAGIC = "binaryrelax state 1"
HEADER_BYTES = 256


@dataclass(frozen=True)
class _Part:
    """A piece of an archive, and what its header says."""

    number: int
    count: int
    archive: str  # the digest of the whole
    content: bytes

    def as_bytes(self) -> bytes:
        digest = hashlib.sha256(self.content).hexdigest()
        header = f"{MAGIC} {self.number} {self.count} {self.archive} {digest}\n"
        return header.ljust(HEADER_BYTES).encode() + self.content


def export_files(root: Path, files: list[Path], folder: Path) -> list[Path]:
    """Writes `files`, which lie under `root`, as parts into ``batch-K`` folders of `folder`.

    A part has at most 15 MiB and a batch at most 60 MiB. Returns the parts.
    """
    archive = _pack(root, files)
    size = PART_BYTES - HEADER_BYTES
    pieces = [archive[start : start + size] for start in range(0, len(archive), size)]
    digest, paths = hashlib.sha256(archive).hexdigest(), []
    for number, piece in enumerate(pieces):
        path = folder / f"batch-{number // PARTS_PER_BATCH}" / f"{digest[:8]}-{number:03d}.part"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_Part(number, len(pieces), digest, piece).as_bytes())
        paths.append(path)
    return paths


def import_files(folder: Path, root: Path) -> list[Path]:
    """Joins the parts anywhere under `folder` and writes the files under `root`.

    Raises:
        ValueError: a part is missing or damaged; nothing has been written.
    """
    archives: dict[str, dict[int, _Part]] = {}
    for path in sorted(folder.rglob("*.part")):
        part = _read_part(path)
        archives.setdefault(part.archive, {})[part.number] = part
    if not archives:
        raise ValueError(f"--import-state {folder}: there are no .part files in it")
    joined = [_join(parts, folder) for parts in archives.values()]
    return [path for archive in joined for path in _unpack(archive, root)]


def _pack(root: Path, files: list[Path]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in files:
            entry = tarfile.TarInfo(path.relative_to(root).as_posix())
            entry.size = path.stat().st_size
            archive.addfile(entry, io.BytesIO(path.read_bytes()))
    return buffer.getvalue()


def _unpack(archive: bytes, root: Path) -> list[Path]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        root.mkdir(parents=True, exist_ok=True)
        files.extractall(root, filter="data")  # refuses to write elsewhere
        return [root / name for name in files.getnames()]


def _read_part(path: Path) -> _Part:
    data = path.read_bytes()
    header, content = data[:HEADER_BYTES].decode(errors="replace").split(), data[HEADER_BYTES:]
    if " ".join(header[:3]) != MAGIC or len(header) != 7:
        raise ValueError(f"{path} is not a part of an exported state")
    if hashlib.sha256(content).hexdigest() != header[6]:
        raise ValueError(f"{path} is damaged; export and copy it again")
    return _Part(int(header[3]), int(header[4]), header[5], content)


def _join(parts: dict[int, _Part], folder: Path) -> bytes:
    count = next(iter(parts.values())).count
    lacking = [str(number) for number in range(count) if number not in parts]
    if lacking:
        raise ValueError(
            f"--import-state {folder}: of {count} parts, number {', '.join(lacking)} is missing; "
            "copy all batches into it"
        )
    return b"".join(parts[number].content for number in range(count))
