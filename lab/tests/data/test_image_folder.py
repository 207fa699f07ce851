import os
import pickle
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from multiprocessing import forkserver
from pathlib import Path

import numpy as np
import pytest
import torch
from lab.tests.support.command import PATIENCE, ROOT, children_of
from PIL import Image

from binaryrelax_lab.commands.errors import ways_out
from binaryrelax_lab.data import EpochPlan, ImageFolder, Share, load_dataset
from binaryrelax_lab.data.image_folder import DEVIATION, MEAN, DecodedBatches, RandomViews
from binaryrelax_lab.data.photographs import centre_view, random_box

SIZE = 32
CLASSES = ("n01", "n02", "n03")
PLAN = EpochPlan(seed=1, epoch=2, batch_size=4, flip=True)
ONE_BY_ONE = replace(PLAN, batch_size=1)  # more batches than are fetched ahead


def write_image(path, rng, size=(50, 40)):
    path.parent.mkdir(parents=True, exist_ok=True)
    coarse = Image.fromarray(rng.integers(0, 256, (5, 4, 3), dtype=np.uint8))
    kind = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG"}[path.suffix.lower()]
    coarse.resize(size, Image.Resampling.BICUBIC).save(path, format=kind)


@pytest.fixture(scope="module")
def made_tree(tmp_path_factory):
    """Nine training and six test images, some of them upright, with suffixes of all kinds."""
    root = tmp_path_factory.mktemp("imagenet")
    rng = np.random.default_rng(0)
    for name in CLASSES:
        for file in ("a.JPEG", "b.jpg", "c.png"):
            write_image(root / "train" / name / file, rng)
        for file in ("a.jpeg", "b.PNG"):
            write_image(root / "val" / name / file, rng, size=(37, 64))
        (root / "train" / name / "notes.txt").write_text("no image")
    return root


@pytest.fixture
def tree(made_tree, tmp_path):
    """A copy that may be damaged."""
    return shutil.copytree(made_tree, tmp_path / "imagenet")


def folder(root, **options):
    return ImageFolder(root, image_size=SIZE, **{"num_workers": 0, **options})


def train(source, plan=PLAN, **options):
    return list(source.train_batches(plan=plan, **options))


def same(batches, others):
    pairs = zip(batches, others, strict=True)
    return all(torch.equal(a, b) for x, y in pairs for a, b in zip(x, y, strict=True))


def test_a_tree_is_counted(made_tree):
    source = folder(made_tree)
    assert (source.num_train, source.num_test, source.num_classes) == (9, 6, 3)
    assert source.num_channels == 3 and source.reports_top5 is True


def test_batches_are_bytes_of_one_size(made_tree):
    batches = train(folder(made_tree))
    assert [len(labels) for _, labels in batches] == [4, 4, 1]
    for images, labels in batches:
        assert images.dtype == torch.uint8 and images.shape[1:] == (SIZE, SIZE, 3)
        assert labels.dtype == torch.int64
    labels = torch.cat([labels for _, labels in batches])
    assert labels.bincount().tolist() == [3, 3, 3]


def test_look_up_normalises_and_is_channels_last(made_tree):
    source = folder(made_tree).to(torch.device("cpu"))
    pixels, labels = train(source)[0]
    images, same_labels = source.look_up(pixels, labels)
    expected = (pixels.float() / 255 - torch.tensor(MEAN)) / torch.tensor(DEVIATION)
    torch.testing.assert_close(images, expected.permute(0, 3, 1, 2))
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert same_labels is labels


def test_an_epoch_is_a_function_of_seed_and_epoch(made_tree):
    source = folder(made_tree)
    assert same(train(source), train(source))
    for seed, epoch in ((1, 3), (2, 2)):
        plan = EpochPlan(seed=seed, epoch=epoch, batch_size=4, flip=True)
        assert not same(train(source), train(source, plan))


def test_skipping_and_sharing_give_the_same_images(made_tree):
    source = folder(made_tree)
    whole = train(source)
    assert same(train(source, skip=2), whole[2:])
    assert train(source, skip=3) == []
    for rank in range(2):
        plan = EpochPlan(seed=1, epoch=2, batch_size=4, flip=True, share=Share(rank, 2))
        expected = [(images[rank::2], labels[rank::2]) for images, labels in whole]
        assert same(train(source, plan), expected)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_workers_give_the_same_images_as_this_process(made_tree):
    with_workers = folder(made_tree, num_workers=2)
    assert same(train(with_workers), train(folder(made_tree)))
    assert same(list(with_workers.test_batches(4)), list(folder(made_tree).test_batches(4)))


def decode_on_when_signalled(root, number):
    """Once a batch is there, workers have the handlers that torch gives them: those die."""
    source = Path(root)
    expected = train(folder(source), ONE_BY_ONE)
    batches = folder(source, num_workers=2).train_batches(plan=ONE_BY_ONE)
    first = next(batches)
    for pid in children_of(os.getpid()):
        os.kill(pid, number)
    assert same([first, *batches], expected)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_workers_decode_on_when_all_processes_are_signalled(made_tree, number):
    """In a process of its own: in this one, other tests start the server that workers come from."""
    call = f"decode_on_when_signalled({str(made_tree)!r}, {number:d})"
    program = f"from {__name__} import decode_on_when_signalled; {call}"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=PATIENCE)


def test_a_signal_that_comes_while_workers_start_is_not_lost(made_tree, monkeypatch):
    noted = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: noted.append(number))
    start = forkserver.ensure_running
    monkeypatch.setattr(
        forkserver, "ensure_running", lambda: (os.kill(os.getpid(), signal.SIGTERM), start())
    )
    try:
        next(folder(made_tree, num_workers=1).train_batches(plan=ONE_BY_ONE))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert noted == [signal.SIGTERM] and not signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_what_workers_need_can_be_sent_to_them(made_tree):
    """Where processes do not start as copies of this one."""
    source = folder(made_tree)
    batches = DecodedBatches(RandomViews(source.train_files, SIZE, PLAN))
    numbers = np.array([3, 1])
    assert same([pickle.loads(pickle.dumps(batches))[numbers]], [batches[numbers]])


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_damaged_image_is_named_in_one_line(tree, num_workers):
    path = tree / "train" / "n02" / "a.JPEG"
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError) as caught:
        train(folder(tree, num_workers=num_workers))
    assert str(caught.value).startswith(f"{path} cannot be read as an image (")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"no image", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n" + b"x" * 99]
)
def test_rubbish_is_named(tree, content):
    path = tree / "val" / "n01" / "a.jpeg"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"val/n01/a\.jpeg cannot be read as an image"):
        list(folder(tree).test_batches(6))


def test_grey_images_become_coloured(tree):
    path = tree / "val" / "n01" / "a.jpeg"
    Image.new("L", (40, 40), 77).save(path)
    images, _ = next(folder(tree).test_batches(1))
    assert images.unique().tolist() == [77]


def test_test_batches_are_the_middles_in_order(made_tree):
    source = folder(made_tree)
    batches = list(source.test_batches(4))
    assert [labels.tolist() for _, labels in batches] == [[0, 0, 1, 1], [2, 2]]
    with Image.open(made_tree / "val" / "n02" / "a.jpeg") as image:
        assert np.array_equal(batches[0][0][2].numpy(), centre_view(image, SIZE))
    shares = [list(source.test_batches(2, Share(rank, 4))) for rank in range(4)]
    labels = [[x for _, part in share for x in part.tolist()] for share in shares]
    assert labels == [[0, 2], [0, 2], [1], [1]]


def test_the_global_generators_are_left_alone(made_tree):
    torch.manual_seed(5)
    np.random.seed(5)
    expected = torch.rand(3), np.random.rand(3)
    torch.manual_seed(5)
    np.random.seed(5)
    train(folder(made_tree))
    assert torch.equal(torch.rand(3), expected[0])
    assert np.array_equal(np.random.rand(3), expected[1])


@pytest.mark.parametrize("size", [(256, 256), (500, 375), (375, 500), (256, 1000), (30, 20)])
def test_the_centre_is_that_of_the_resized_photograph(size):
    """A photograph that brightens evenly to the right and downwards shows where it was cut."""
    width, height = size
    x, y = np.meshgrid((np.arange(width) + 0.5) / width, (np.arange(height) + 0.5) / height)
    pixels = np.stack([255 * x, 255 * y, 0 * x], axis=2).astype(np.uint8)
    view = centre_view(Image.fromarray(pixels), 224).astype(float) / 255
    assert view.shape == (224, 224, 3)
    shorter = min(size)
    for channel, side in ((0, width), (1, height)):
        shown = 224 / 256 * shorter / side  # the part of this side that is kept
        values = view[:, :, channel]
        assert values.mean() == pytest.approx(0.5, abs=0.01)
        assert values.max() - values.min() == pytest.approx(shown, abs=0.02)


def test_random_boxes_have_the_stated_areas_and_shapes():
    rng = np.random.default_rng(0)
    boxes = np.array([random_box(400, 400, rng) for _ in range(2000)])
    left, upper, right, lower = boxes.T
    assert (left >= 0).all() and (upper >= 0).all()
    assert (right <= 400).all() and (lower <= 400).all()
    width, height = right - left, lower - upper
    areas, ratios = width * height / 160_000, width / height
    assert 0.078 < areas.min() < 0.1 and 0.9 < areas.max() <= 1
    assert ratios.min() > 0.74 and ratios.max() < 1.35
    assert abs(np.log(ratios).mean()) < 0.02
    assert left.min() == 0 and right.max() == 400


@pytest.mark.parametrize(
    ("size", "expected"),
    [((2000, 10), (994, 0, 1007, 10)), ((10, 2000), (0, 994, 10, 1007)), ((1, 1), (0, 0, 1, 1))],
)
def test_very_long_photographs_show_their_middle(size, expected):
    assert random_box(*size, np.random.default_rng(0)) == expected


def test_half_of_the_images_are_mirrored_if_asked_for(tmp_path):
    """A photograph that brightens to the right darkens when mirrored."""
    row = np.arange(64, dtype=np.uint8) * 4
    image = Image.fromarray(np.broadcast_to(row[None, :, None], (64, 64, 3)).copy())
    for number in range(60):
        for part in ("train", "val"):
            path = tmp_path / part / "only" / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            image.save(path)
    for flip in (True, False):
        plan = EpochPlan(seed=0, epoch=0, batch_size=60, flip=flip)
        ((images, _),) = train(folder(tmp_path), plan)
        mirrored = (images[:, 0, 0, 0] > images[:, 0, -1, 0]).sum().item()
        assert 18 < mirrored < 42 if flip else mirrored == 0


def without_val(root):
    shutil.rmtree(root / "val")
    return f"{root / 'val'} is missing"


def with_an_empty_class(root):
    shutil.rmtree(root / "train" / "n02")
    (root / "train" / "n02").mkdir()
    return f"{root / 'train' / 'n02'} holds no image"


def without_classes(root):
    shutil.rmtree(root / "train")
    (root / "train").mkdir()
    return f"{root / 'train'} holds no folders"


def with_a_class_to_train_only(root):
    shutil.rmtree(root / "val" / "n02")
    return f"{root / 'val'} lacks 1 of the 3 classes in {root / 'train'}, for instance n02"


def with_a_class_to_test_only(root):
    os.rename(root / "train" / "n03", root / "train" / "n01" / "hidden")
    return f"{root / 'train'} lacks 1 of the 3 classes in {root / 'val'}, for instance n03"


@pytest.mark.parametrize(
    "damage",
    [
        without_val,
        with_an_empty_class,
        without_classes,
        with_a_class_to_train_only,
        with_a_class_to_test_only,
    ],
)
def test_wrong_trees_are_refused_in_one_line(tree, damage):
    expected = damage(tree)
    with pytest.raises(ValueError) as caught, ways_out():
        load_dataset("imagenet", data=tree)
    assert str(caught.value).startswith(f"ImageNet: {expected}")
    assert "give its folder with --data DIR" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_imagenet_is_found_in_a_folder_of_its_own_and_cannot_be_downloaded(tree, tmp_path):
    assert load_dataset("imagenet", data=tmp_path).num_train == 9
    message = r"nowhere/train is missing; .*--download cannot fetch it"
    with pytest.raises(ValueError, match=message), ways_out():
        load_dataset("imagenet", data=tmp_path / "nowhere", download=True)
