"""States that move between machines: in small parts, complete and undamaged or not at all."""

import hashlib
import io
import os
import shutil
import signal
import tarfile

import pytest
from lab.tests.support.campaigns import Diary, carry_on, evidence, small_table, stopping_after
from lab.tests.support.command import files_in, finish, start, wait_for_line
from lab.tests.support.errors import one_line
from tools.campaign_state import _Part, export_files, import_files, main, state_files

from binaryrelax_lab.campaign import Campaign
from binaryrelax_lab.engine.checkpoint import checkpoints

MIB = 1 << 20


@pytest.fixture
def state(tmp_path):
    """A folder with two files, exported in one part; returns the part."""
    source = tmp_path / "source"
    (source / "results" / "deep").mkdir(parents=True)
    (source / "results" / "deep" / "seed0.json").write_bytes(b"{}\n")
    (source / "weights").write_bytes(bytes(range(256)))
    files = [source / "results" / "deep" / "seed0.json", source / "weights"]
    [part] = export_files(source, files, tmp_path / "state")
    return part


def exported_by_somebody_else(folder, *members):
    """A part that is in order, with an archive that no export would make."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size))
    return forged(folder, buffer.getvalue())


def forged(folder, archive):
    folder.mkdir()
    digest = hashlib.sha256(archive).hexdigest()
    (folder / "0.part").write_bytes(_Part(0, 1, digest, archive).as_bytes())
    return folder


def refusal(folder, target):
    """The words of the refusal, after which nothing has been written."""
    with pytest.raises(ValueError) as error:
        import_files(folder, target)
    assert not target.exists()
    return one_line(error)


def test_files_arrive_as_they_were(state, tmp_path):
    target = tmp_path / "target"
    arrived = import_files(tmp_path / "state", target)
    assert arrived == [target / "results" / "deep" / "seed0.json", target / "weights"]
    assert arrived[0].read_bytes() == b"{}\n"
    assert arrived[1].read_bytes() == bytes(range(256))


def test_large_files_are_cut_into_parts_and_batches(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    content = os.urandom(61 * MIB)
    (source / "large").write_bytes(content)
    (source / "small").write_bytes(b"small")
    parts = export_files(source, [source / "large", source / "small"], tmp_path / "state")
    assert len(parts) == 5
    batches = {}
    for path in (tmp_path / "state").rglob("*.*"):
        assert path.stat().st_size <= 15 * MIB
        batches[path.parent.name] = batches.get(path.parent.name, 0) + path.stat().st_size
    assert set(batches) == {"batch-0", "batch-1"}
    assert max(batches.values()) <= 60 * MIB
    elsewhere = tmp_path / "one folder"  # however the batches were copied
    elsewhere.mkdir()
    for path in parts:
        path.rename(elsewhere / path.name)
    import_files(elsewhere, target)
    assert (target / "large").read_bytes() == content
    assert (target / "small").read_bytes() == b"small"

    (elsewhere / parts[2].name).unlink()
    message = refusal(elsewhere, tmp_path / "other")
    assert "of 5 parts, number 2 is missing; copy all batches into it" in message


@pytest.mark.parametrize("position", [3, 20, 22, 40, 120, 255, 256, 1000, -1])
def test_flipped_bit_is_noticed_wherever_it_is(position, state, tmp_path):
    content = bytearray(state.read_bytes())
    content[position] ^= 1
    state.write_bytes(content)
    refusal(tmp_path / "state", tmp_path / "target")


def test_part_that_was_cut_off_is_noticed(state, tmp_path):
    for size in (0, 100, 300, 5000):
        state.write_bytes(state.read_bytes()[:size])
        assert str(state) in refusal(tmp_path / "state", tmp_path / "target")


def test_foreign_file_among_the_parts_is_refused_by_name(state, tmp_path):
    (state.parent / "movie.part").write_bytes(os.urandom(1000))
    message = refusal(tmp_path / "state", tmp_path / "target")
    assert f"{state.parent / 'movie.part'} is not a part of an exported state" in message


def test_folder_without_parts_is_refused(tmp_path):
    assert "there are no .part files in it" in refusal(tmp_path / "nowhere", tmp_path / "target")


@pytest.mark.parametrize("name", ["../x", "runs/../../x", "/tmp/x", ".."])
def test_archive_that_would_write_elsewhere_is_refused(name, tmp_path):
    fine, hostile = tarfile.TarInfo("fine"), tarfile.TarInfo(name)
    fine.size = hostile.size = 3
    folder = exported_by_somebody_else(tmp_path / "state", fine, hostile)
    assert "which no export would" in refusal(folder, tmp_path / "target")
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE]
)
def test_archive_with_anything_but_files_is_refused(kind, tmp_path):
    member = tarfile.TarInfo("link")
    member.type, member.linkname = kind, "/etc/passwd"
    folder = exported_by_somebody_else(tmp_path / "state", member)
    assert "which no export would" in refusal(folder, tmp_path / "target")


def test_parts_that_are_no_archive_are_refused(tmp_path):
    folder = forged(tmp_path / "state", b"not an archive" * 100)
    assert "do not hold an exported state" in refusal(folder, tmp_path / "target")


def test_new_export_replaces_the_old_one(state, tmp_path):
    newer = tmp_path / "source" / "newer"
    newer.write_bytes(b"new")
    parts = export_files(tmp_path / "source", [newer], tmp_path / "state")
    assert list((tmp_path / "state").rglob("*.part")) == parts
    assert [path.name for path in import_files(tmp_path / "state", tmp_path / "target")] == [
        "newer"
    ]


@pytest.fixture
def two_exports(tmp_path, monkeypatch):
    """A folder with a whole export, and one with a newer state, both of several parts."""
    monkeypatch.setattr("tools.campaign_state.PART_BYTES", 4096)
    file = tmp_path / "source" / "file"
    file.parent.mkdir()
    for name in ("older", "newer"):
        file.write_bytes(os.urandom(20_000) + name.encode())
        export_files(tmp_path / "source", [file], tmp_path / name)
    return tmp_path / "older", tmp_path / "newer"


def arrived(folder, target):
    """What an import brings, and the notes on it."""
    notes = []
    [file] = import_files(folder, target, notes.append)
    return file.read_bytes()[-5:], notes


def test_export_that_fails_leaves_the_older_one(two_exports, tmp_path):
    older, newer = two_exports
    before = files_in(older)
    third = sorted(newer.rglob("*.part"))[2].relative_to(newer)
    (older / third).mkdir()  # where no file can be written
    with pytest.raises(OSError, match="cannot be written"):
        export_files(tmp_path / "source", [tmp_path / "source" / "file"], older)
    assert files_in(older) == before
    (older / third).rmdir()
    assert arrived(older, tmp_path / "target") == (b"older", [])


def test_export_that_was_killed_is_passed_over_with_a_note(two_exports, tmp_path):
    older, newer = two_exports
    for path in sorted(newer.rglob("*.part"))[:2]:
        shutil.copy(path, older / path.relative_to(newer))
    (older / "batch-0" / ".0a1b2c3d-002.part.9f8e7d6c.part").write_bytes(b"half")
    content, [note] = arrived(older, tmp_path / "target")
    assert content == b"older"
    assert note.startswith(f"{older}: of 8 parts, number 2, 3, 4, 5, 6, 7 is missing: that export")
    file = tmp_path / "source" / "file"
    parts = export_files(tmp_path / "source", [file], older)
    assert sorted(older.rglob("*.part")) == sorted(parts)
    assert arrived(older, tmp_path / "target") == (b"newer", [])


def test_two_exports_of_which_none_is_whole_are_refused(two_exports, tmp_path):
    older, newer = two_exports
    shutil.copytree(newer, older / "newer")
    for folder in (older / "batch-0", older / "newer" / "batch-0"):
        sorted(folder.iterdir())[1].unlink()
    message = refusal(older, tmp_path / "target")
    assert "of 8 parts, number 1 is missing; copy all batches into it" in message


def test_campaign_goes_on_elsewhere_to_the_same_bits(tmp_path):
    """Stopped, exported, imported into an empty folder, each time, until all is done."""
    whole = Campaign(recipes=small_table(), out=tmp_path / "whole")
    carry_on(whole)
    here = Campaign(recipes=small_table(), out=tmp_path / "machine0")
    num_resumed = 0
    for number in range(1, 30):
        diary = Diary()
        outcome = carry_on(here, diary, should_stop=stopping_after(7, diary))
        num_resumed += len(diary.names("resumed"))
        if not outcome.stopped + outcome.waiting:
            break
        export_files(here.out, state_files(here), tmp_path / f"state{number}")
        here = Campaign(recipes=small_table(), out=tmp_path / f"machine{number}")
        import_files(tmp_path / f"state{number}", here.out)
    assert num_resumed >= 2
    assert evidence(here) == evidence(whole)


def test_small_ancestor_stays_in_the_state_of_a_finished_campaign(tmp_path, monkeypatch):
    """More seeds or methods may be asked for later."""
    campaign = Campaign(recipes=small_table(), out=tmp_path)
    carry_on(campaign)
    assert not campaign.missing()
    ancestor = tmp_path / "runs" / "tiny-float" / "seed0" / "final.safetensors"
    assert [path for path in state_files(campaign) if path.suffix != ".json"] == [ancestor]
    monkeypatch.setattr("tools.campaign_state.LARGEST_CARRIED", 1000)
    assert [path for path in state_files(campaign) if path.suffix != ".json"] == []


def test_state_is_results_ancestors_and_checkpoints_but_not_finished_networks(tmp_path):
    campaign = Campaign(recipes=small_table(), out=tmp_path)
    diary = Diary()
    carry_on(campaign, diary, should_stop=stopping_after(4 + 4 + 3, diary), num_jobs=1)
    names = [path.relative_to(tmp_path).as_posix() for path in state_files(campaign)]
    results = "results/fashion-mnist-12k"
    assert names == [
        f"{results}/tiny-bwn/seed0.json",
        f"{results}/tiny-float/seed0.json",
        "runs/tiny-float/seed0/final.safetensors",
        "runs/tiny-binary/seed0/checkpoints/step-000000003.ckpt",
    ]


def begun_campaign(out):
    """The demo's float network of seed 1, stopped after a moment by the real command."""
    process = start("campaign", "demo", "--only", "demo-float/seed1", "--seeds", "2", "--out", out)
    wait_for_line(process, "begins at epoch 0")
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == 143
    return checkpoints(out / "runs" / "demo-float" / "seed1")[0]


def test_tool_carries_a_campaign_to_another_folder(tmp_path, capsys):
    here, there, state = (tmp_path / name for name in ("here", "there", "state"))
    saved = begun_campaign(here)
    assert main(["split", str(here), str(state), "demo"]) == 0
    assert main(["join", str(state), str(there)]) == 0
    assert capsys.readouterr().out == f"1 parts in {state}\n1 files in {there}\n"
    assert (there / saved.relative_to(here)).read_bytes() == saved.read_bytes()


def test_tool_says_in_one_line_what_is_wrong_and_changes_nothing(state, tmp_path, capsys):
    state.write_bytes(state.read_bytes()[:-1] + b"x")
    assert main(["join", str(tmp_path / "state"), str(tmp_path / "target")]) == 1
    message = f"campaign_state: {state} is damaged; export and copy it again\n"
    assert capsys.readouterr() == ("", message)
    assert not (tmp_path / "target").exists()
    assert main(["split", str(tmp_path), str(tmp_path / "state"), "nonsense"]) == 1
    assert "no table is called 'nonsense'" in capsys.readouterr().err


def test_tool_notes_an_export_that_was_cut_off(state, tmp_path, capsys):
    (state.parent / "newer.part").write_bytes(_Part(0, 2, "0" * 64, b"one of two").as_bytes())
    assert main(["join", str(tmp_path / "state"), str(tmp_path / "target")]) == 0
    assert "of 2 parts, number 1 is missing: that export is left out" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["split"], ["split", "a", "b"], ["join", "a"]])
def test_tool_explains_itself(arguments, capsys):
    assert main(arguments) == 2
    assert "campaign_state.py split CAMPAIGN FOLDER TABLE..." in capsys.readouterr().err
