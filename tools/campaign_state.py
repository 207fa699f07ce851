"""Carries a campaign to another machine in small files: split into parts, checked, joined again.

    python tools/campaign_state.py split CAMPAIGN FOLDER TABLE...    parts in FOLDER/batch-*/
    python tools/campaign_state.py join FOLDER CAMPAIGN              from parts anywhere in FOLDER

CAMPAIGN is the folder that `binaryrelax campaign TABLE... --out CAMPAIGN` fills. A part has at most
15 MiB, a batch at most 60 MiB. Parts arrive complete and undamaged, or nothing is written.
"""

from __future__ import annotations

import hashlib
import io
import re
import sys
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from binaryrelax_lab.campaign import Campaign, recipes_of_tables
from binaryrelax_lab.engine.checkpoint import checkpoints
from binaryrelax_lab.files import FINAL_NAME, write_atomically

LARGEST_CARRIED = 16 << 20  # bytes; runs with larger checkpoints begin anew on another machine
PART_BYTES = 15 << 20  # of a file; headers included
PARTS_PER_BATCH = 4  # 60 MiB
HEADER_BYTES = 256
HEADER = re.compile(rb"binaryrelax state 1 (\d{1,5}) (\d{1,5}) ([0-9a-f]{64}) ([0-9a-f]{64})\n *")
PART_PATTERN = "batch-*/*.part"


@dataclass(frozen=True)
class _Part:
    """A piece of an archive, and what its header says."""

    number: int
    count: int
    archive: str  # the digest of the whole
    content: bytes

    def as_bytes(self) -> bytes:
        digest = hashlib.sha256(self.content).hexdigest()
        header = f"binaryrelax state 1 {self.number} {self.count} {self.archive} {digest}\n"
        return header.ljust(HEADER_BYTES).encode() + self.content


def state_files(campaign: Campaign) -> list[Path]:
    """What another machine needs to go on: results, float ancestors, small checkpoints.

    Small ancestors go along even if nothing waits for them now: more seeds may follow.
    """
    missing = replace(campaign, only=("*",)).missing()  # of the table, whatever was asked for
    waited_for = {job.initial for job in missing}
    ancestors = {recipe.starts_from for recipe in campaign.recipes}
    networks = sorted((campaign.out / "runs").glob(f"*/seed*/{FINAL_NAME}"))
    parents = [
        path
        for path in networks
        if path in waited_for or (path.parts[-3] in ancestors and _is_small(path))
    ]
    unfinished = [path for job in missing for path in checkpoints(job.folder)[:1]]
    results = sorted((campaign.out / "results").rglob("*.json"))
    return [*results, *parents, *filter(_is_small, unfinished)]


def _is_small(path: Path) -> bool:
    return path.stat().st_size <= LARGEST_CARRIED


def export_files(root: Path, files: list[Path], folder: Path) -> list[Path]:
    """Writes `files`, which lie under `root`, as parts into ``batch-K`` folders of `folder`.

    A part has at most 15 MiB and a batch at most 60 MiB. They replace those of an earlier export
    to that folder, once all of them are there. Returns the parts.
    """
    archive = _pack(root, files)
    size = PART_BYTES - HEADER_BYTES
    pieces = [archive[start : start + size] for start in range(0, len(archive), size)]
    digest, old = hashlib.sha256(archive).hexdigest(), set(folder.glob(PART_PATTERN))
    paths = []
    try:
        for number, piece in enumerate(pieces):
            name = f"batch-{number // PARTS_PER_BATCH}/{digest[:8]}-{number:03d}.part"
            paths.append(folder / name)
            paths[-1].parent.mkdir(parents=True, exist_ok=True)
            write_atomically(paths[-1], _Part(number, len(pieces), digest, piece).as_bytes())
    except BaseException:
        _remove(set(paths) - old)
        raise
    _remove(old - set(paths))
    return paths


def import_files(
    folder: Path, root: Path, note: Callable[[str], None] = lambda line: None
) -> list[Path]:
    """Joins the parts anywhere under `folder` and writes the files under `root`.

    An export that was cut off is passed over if there is a whole one, and `note` is told.

    Raises:
        ValueError: a part is missing or damaged, or would be written elsewhere; nothing has been
            written.
    """
    archives: dict[str, dict[int, _Part]] = {}
    for path in sorted(folder.rglob("*.part")):
        if not path.name.startswith("."):  # else it was being written when its process was killed
            part = _read_part(path)
            archives.setdefault(part.archive, {})[part.number] = part
    if not archives:
        raise ValueError(f"{folder}: there are no .part files in it")
    contents: dict[str, bytes] = {}
    for digest, parts in _whole_ones(archives, folder, note).items():
        contents |= _unpack(_join(digest, parts, folder), folder)
    for name, content in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(root / name, content)
    return [root / name for name in contents]


def _pack(root: Path, files: list[Path]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in files:
            entry = tarfile.TarInfo(path.relative_to(root).as_posix())
            entry.size = path.stat().st_size
            archive.addfile(entry, io.BytesIO(path.read_bytes()))
    return buffer.getvalue()


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _unpack(archive: bytes, folder: Path) -> dict[str, bytes]:
    """The content of each file of an archive, by its name."""
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as files:
            members = files.getmembers()
            for member in members:
                _refuse_what_we_never_export(member, folder)
            return {member.name: _content(files, member) for member in members}
    except tarfile.TarError as error:
        raise ValueError(f"{folder}: its parts do not hold an exported state ({error})") from error


def _content(files: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    opened = files.extractfile(member)
    assert opened is not None, "it is a regular file"
    return opened.read()


def _refuse_what_we_never_export(member: tarfile.TarInfo, folder: Path) -> None:
    name = PurePosixPath(member.name)
    if not member.isreg() or name.is_absolute() or ".." in name.parts:
        raise ValueError(
            f"{folder}: it wants to write {member.name!r}, which no export would; do not trust it"
        )


def _read_part(path: Path) -> _Part:
    data = path.read_bytes()
    header, content = HEADER.fullmatch(data[:HEADER_BYTES]), data[HEADER_BYTES:]
    if header is None:
        raise ValueError(f"{path} is not a part of an exported state; remove it, or copy it again")
    number, count, archive, digest = (group.decode() for group in header.groups())
    if hashlib.sha256(content).hexdigest() != digest:
        raise ValueError(f"{path} is damaged; export and copy it again")
    return _Part(int(number), int(count), archive, content)


def _whole_ones(
    archives: dict[str, dict[int, _Part]], folder: Path, note: Callable[[str], None]
) -> dict[str, dict[int, _Part]]:
    """The archives of which all parts are there."""
    whole = {digest: parts for digest, parts in archives.items() if not _lacking(parts)}
    for parts in archives.values():
        lacking = _lacking(parts)
        if lacking and not whole:
            raise ValueError(f"{folder}: {lacking}; copy all batches into it")
        if lacking:
            note(f"{folder}: {lacking}: that export is left out, a whole one is taken")
    return whole


def _lacking(parts: dict[int, _Part]) -> str | None:
    """Which parts of an archive are not there, in words; None if all are."""
    count = _count(parts)
    lacking = [str(number) for number in range(count) if number not in parts]
    return f"of {count} parts, number {', '.join(lacking)} is missing" if lacking else None


def _count(parts: dict[int, _Part]) -> int:
    """How many parts the archive should have."""
    return next(iter(parts.values())).count


def _join(digest: str, parts: dict[int, _Part], folder: Path) -> bytes:
    whole = b"".join(parts[number].content for number in range(_count(parts)))
    if hashlib.sha256(whole).hexdigest() != digest:
        raise ValueError(f"{folder}: a header is damaged; export and copy it again")
    return whole


def _campaign(out: Path, tables: list[str]) -> Campaign:
    """With all seeds that were begun."""
    seeds = {
        int(path.name[4:]) for path in (out / "runs").glob("*/seed*") if path.name[4:].isdigit()
    }
    return Campaign(
        recipes=recipes_of_tables(*tables), out=out, num_seeds=max(seeds, default=0) + 1
    )


def main(arguments: list[str]) -> int:
    """Splits or joins, and says how much; a line about what is wrong, and status 1 or 2."""
    try:
        match arguments:
            case ["split", out, folder, *tables] if tables:
                campaign = _campaign(Path(out), tables)
                parts = export_files(campaign.out, state_files(campaign), Path(folder))
                print(f"{len(parts)} parts in {folder}")
            case ["join", folder, out]:
                files = import_files(Path(folder), Path(out), print)
                print(f"{len(files)} files in {out}")
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except (ValueError, OSError) as error:
        print(f"campaign_state: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
