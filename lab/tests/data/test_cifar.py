import pytest
from lab.tests.support import cifar_files
from lab.tests.support.cifar_files import ARCHIVES, FOLDERS, NAMES, assert_complete
from lab.tests.support.errors import one_line

from binaryrelax_lab.commands.errors import ways_out
from binaryrelax_lab.data import load_cifar, load_dataset
from binaryrelax_lab.data.cifar_files import CIFAR10, CIFAR100, OFFICIAL_DIGESTS

LAYOUTS = list(FOLDERS)
by_layout = pytest.mark.parametrize(("name", "layout"), LAYOUTS)


@by_layout
@pytest.mark.parametrize("inside", [True, False], ids=["folder above", "folder itself"])
def test_loose_files_are_loaded(name, layout, inside, tmp_path):
    files = cifar_files.contents(name, layout)
    cifar_files.write_folder(tmp_path, files)
    folder = tmp_path if inside else tmp_path / FOLDERS[name, layout]
    assert_complete(name, load_cifar(name, folder, digests=cifar_files.digests(files)))


@by_layout
@pytest.mark.parametrize("inside", [True, False], ids=["folder above", "archive itself"])
def test_archives_are_loaded_without_unpacking(name, layout, inside, tmp_path):
    files = cifar_files.contents(name, layout)
    path = tmp_path / ARCHIVES[name, layout]
    path.write_bytes(cifar_files.archive(files))
    digests = cifar_files.digests(files)
    assert_complete(name, load_cifar(name, tmp_path if inside else path, digests=digests))
    assert list(tmp_path.iterdir()) == [path]


def test_both_sets_live_side_by_side(tmp_path):
    files = cifar_files.contents("cifar10", "binary") | cifar_files.contents("cifar100", "python")
    cifar_files.write_folder(tmp_path, files)
    for name in NAMES:
        assert_complete(name, load_cifar(name, tmp_path, digests=cifar_files.digests(files)))


def test_every_official_file_has_a_digest():
    for cifar in (CIFAR10, CIFAR100):
        for layout in cifar.layouts:
            paths = {layout.archive, *(f"{layout.folder}/{file}" for file in layout.files)}
            assert paths <= OFFICIAL_DIGESTS.keys()
    lengths = {"md5": 32, "sha1": 40}
    for digest in OFFICIAL_DIGESTS.values():
        algorithm, _, value = digest.partition(":")
        assert len(value) == lengths[algorithm]
        int(value, 16)


@by_layout
def test_unofficial_files_are_refused_by_default(name, layout, tmp_path):
    cifar_files.write_folder(tmp_path, cifar_files.contents(name, layout))
    with pytest.raises(ValueError, match=r"is damaged: .* bytes with \w+:\w+ instead of") as caught:
        load_dataset(name, data=tmp_path)
    first = NAMES[name][0]
    assert f"{tmp_path / FOLDERS[name, layout] / first}" in one_line(caught)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_missing_is_named_with_the_ways_to_get_it(name, tmp_path):
    with pytest.raises(ValueError) as caught, ways_out():
        load_dataset(name, data=tmp_path / "nowhere")
    text = one_line(caught)
    assert text.startswith(f"CIFAR-{name[5:]}: {tmp_path / 'nowhere'} neither is nor holds any of")
    for layout in ("python", "binary"):
        assert FOLDERS[name, layout] in text and ARCHIVES[name, layout] in text
    for way_out in ("--data DIR", "--download", "https://www.cs.toronto.edu/~kriz/cifar.html"):
        assert way_out in text


def test_the_default_folder_is_called_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="CIFAR-10: data neither is nor holds"):
        load_dataset("cifar10")


@by_layout
def test_a_missing_file_is_named(name, layout, tmp_path):
    files = cifar_files.contents(name, layout)
    lost = list(files)[-1]
    digests = cifar_files.digests(files)
    del files[lost]
    cifar_files.write_folder(tmp_path / "loose", files)
    (tmp_path / ARCHIVES[name, layout]).write_bytes(cifar_files.archive(files))
    for data in (tmp_path / "loose", tmp_path):
        with (
            pytest.raises(ValueError, match=r"is missing; delete .*--download") as caught,
            ways_out(),
        ):
            load_cifar(name, data, digests=digests)
        assert lost.rpartition("/")[2] in one_line(caught)


@by_layout
@pytest.mark.parametrize(
    "damage", [lambda c: c[:-1], lambda c: c[:100], lambda c: b"", lambda c: c + b"x"]
)
def test_damaged_files_are_named(name, layout, damage, tmp_path):
    """With and without a digest that gives the damage away; a pickle ends where it says."""
    files = cifar_files.contents(name, layout)
    digests = cifar_files.digests(files)
    last = list(files)[-1]
    files[last] = damage(files[last])
    cifar_files.write_folder(tmp_path, files)
    with pytest.raises(ValueError, match=r"is damaged: .*; delete it; ") as caught:
        load_cifar(name, tmp_path, digests=digests)
    assert str(tmp_path / last) in one_line(caught)
    if layout == "binary" or len(files[last]) < 10_000:
        with pytest.raises(ValueError, match=r"is damaged: .*; delete it; ") as caught:
            load_cifar(name, tmp_path, digests=cifar_files.digests(files))
        assert str(tmp_path / last) in one_line(caught)


@by_layout
@pytest.mark.parametrize("damage", [lambda c: c[: len(c) // 2], lambda c: b"x" * 99, lambda c: b""])
def test_damaged_archives_are_named(name, layout, damage, tmp_path):
    files = cifar_files.contents(name, layout)
    path = tmp_path / ARCHIVES[name, layout]
    path.write_bytes(damage(cifar_files.archive(files)))
    with pytest.raises(ValueError, match=r"is damaged|is missing") as caught:
        load_cifar(name, path, digests=cifar_files.digests(files))
    assert str(path) in one_line(caught)


def test_labels_beyond_the_classes_are_refused(tmp_path):
    files = cifar_files.contents("cifar10", "binary")
    last = list(files)[-1]
    files[last] = b"\x0a" + files[last][1:]
    cifar_files.write_folder(tmp_path, files)
    with pytest.raises(ValueError, match=r"test_batch\.bin is damaged: labels between"):
        load_cifar("cifar10", tmp_path, digests=cifar_files.digests(files))
