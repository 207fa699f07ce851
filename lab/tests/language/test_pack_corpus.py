import torch
from lab.tests.support.texts import TRAIN, bytes_of, text_folder
from tools.pack_corpus import main


def test_tokens_arrive_in_parts_and_serve_without_the_texts(tmp_path, capsys):
    source = text_folder(tmp_path / "source", train=TRAIN * 6000, test="Yes.")
    assert main(["split", str(source), "256", str(tmp_path / "parts")]) == 0
    parts = list((tmp_path / "parts").rglob("*.part"))
    assert len(parts) > 1 and max(part.stat().st_size for part in parts) <= 15 << 20
    assert main(["join", str(tmp_path / "parts"), str(tmp_path / "target")]) == 0
    made, arrived = bytes_of(source), bytes_of(tmp_path / "target")
    assert not list((tmp_path / "target").glob("*.txt"))
    assert arrived.digest == made.digest
    assert torch.equal(arrived.others[0].tokens.int(), made.others[0].tokens.int())
    assert f"{len(parts)} parts" in capsys.readouterr().out


def test_what_is_wrong_is_one_line(tmp_path, capsys):
    assert main(["split", str(tmp_path), "256", str(tmp_path)]) == 1
    assert main(["join", str(tmp_path), str(tmp_path)]) == 1
    assert capsys.readouterr().err.count("\n") == 2
    assert main(["split", str(tmp_path)]) == 2
