"""Carries tokens to another machine in small files, without the texts.

    python -m tools.pack_corpus split DATA VOCABULARY FOLDER    parts in FOLDER/batch-*/
    python -m tools.pack_corpus join FOLDER DATA                from parts anywhere in FOLDER

DATA is a folder of texts (train.txt, val.txt and others), whose tokens are made if need be, or of
tokens. A part has at most 15 MiB, a batch at most 60 MiB. Joined, the tokens serve as DATA there.
"""

import sys
from pathlib import Path

from tools.campaign_state import export_files, import_files

from binaryrelax_lab.language import load_corpus
from binaryrelax_lab.language.token_folder import folders_in


def split(data: Path, vocabulary: int, folder: Path) -> list[Path]:
    """Writes the tokens of the texts in `data` as parts; returns these."""
    load_corpus(data, vocabulary=vocabulary, note=print, cache=data)
    kept = folders_in(data, vocabulary)
    if len(kept) != 1:
        raise ValueError(f"{data} holds {len(kept)} folders of such tokens; leave the one to carry")
    return export_files(data, sorted(path for path in kept[0].iterdir() if _is_whole(path)), folder)


def _is_whole(path: Path) -> bool:
    return not path.name.startswith(".")


def main(arguments: list[str]) -> int:
    """Splits or joins, and says how much; a line about what is wrong, and status 1 or 2."""
    try:
        match arguments:
            case ["split", data, vocabulary, folder] if vocabulary.isdigit():
                parts = split(Path(data), int(vocabulary), Path(folder))
                print(f"{len(parts)} parts in {folder}")
            case ["join", folder, data]:
                files = import_files(Path(folder), Path(data), print)
                print(f"{len(files)} files in {data}")
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except (ValueError, OSError) as error:
        print(f"pack_corpus: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
