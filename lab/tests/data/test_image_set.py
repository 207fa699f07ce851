from dataclasses import replace

import pytest
import torch

from binaryrelax_lab.data import EpochPlan, ImageSet, Share

MEAN, DEVIATION = (0.3, 0.4, 0.5), (0.2, 0.25, 0.3)


def random_set(num_train=50, num_test=23, height=6, width=7) -> ImageSet:
    generator = torch.Generator().manual_seed(0)
    sizes = {"train": num_train, "test": num_test}
    images = {
        f"{part}_images": torch.randint(0, 256, (n, height, width, 3), generator=generator)
        for part, n in sizes.items()
    }
    return ImageSet(
        **{name: tensor.to(torch.uint8) for name, tensor in images.items()},
        train_labels=torch.arange(num_train) % 10,
        test_labels=torch.arange(num_test) % 7,
        num_classes=10,
        mean=MEAN,
        deviation=DEVIATION,
    )


def plan(**changes) -> EpochPlan:
    return replace(EpochPlan(seed=3, epoch=2, batch_size=16, flip=True, crop_padding=4), **changes)


def normalised(pixels: torch.Tensor) -> torch.Tensor:
    """Channels first, as the definition of the normalisation says."""
    scaled = pixels.permute(2, 0, 1).float() / 255
    return (scaled - torch.tensor(MEAN)[:, None, None]) / torch.tensor(DEVIATION)[:, None, None]


def slow_view(image: torch.Tensor, mirrored: int, down: int, right: int) -> torch.Tensor:
    """Pixel by pixel: what a window moved over a black plane shows, mirrored where asked for."""
    height, width, _ = image.shape
    shown = torch.zeros_like(image)
    for y in range(height):
        for x in range(width):
            column = width - 1 - x if mirrored else x
            if 0 <= y + down < height and 0 <= column + right < width:
                shown[y, x] = image[y + down, column + right]
    return normalised(shown)


def rows_of(data: ImageSet, plan: EpochPlan, **options) -> list[torch.Tensor]:
    return [rows for (rows,) in data.train_batches(plan=plan, **options)]


@pytest.mark.parametrize("padding", [0, 1, 4, 11])
def test_look_up_equals_the_slow_reference(padding):
    data = random_set()
    for rows in rows_of(data, plan(crop_padding=padding)):
        images, labels = data.look_up(rows)
        assert images.dtype == torch.float32 and labels.dtype == torch.int64
        for (index, *view), image, label in zip(rows.tolist(), images, labels, strict=True):
            torch.testing.assert_close(image, slow_view(data.train_images[index], *view))
            assert label == data.train_labels[index]


def test_images_are_channels_last():
    data = random_set()
    (rows,) = next(data.train_batches(plan=plan()))
    (numbers,) = next(data.test_batches(8))
    for images, _ in (data.look_up(rows), data.look_up_test(numbers)):
        assert images.shape[1:] == (3, 6, 7)
        assert images.is_contiguous(memory_format=torch.channels_last)


def test_a_plan_without_augmentation_gives_the_plain_images():
    data = random_set()
    for rows in rows_of(data, plan(flip=False, crop_padding=0)):
        images, _ = data.look_up(rows)
        for index, image in zip(rows[:, 0].tolist(), images, strict=True):
            torch.testing.assert_close(image, normalised(data.train_images[index]))


def test_every_image_comes_once_in_an_order_of_its_own():
    data = random_set()
    orders = [
        torch.cat(rows_of(data, plan(seed=seed, epoch=epoch)))[:, 0].tolist()
        for seed, epoch in [(0, 0), (0, 1), (1, 0), (1, 1)]
    ]
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert len({tuple(order) for order in orders}) == 4


def test_flips_and_moves_are_spread_evenly():
    table = torch.cat(rows_of(random_set(num_train=20_000, height=1, width=1), plan()))
    assert 9_700 < table[:, 1].sum() < 10_300
    for column in (2, 3):
        counts = (table[:, column] + 4).bincount()
        assert len(counts) == 9
        assert (counts - 20_000 / 9).abs().max() < 220


def test_batches_have_the_stated_lengths_and_type():
    batches = rows_of(random_set(), plan())
    assert [len(rows) for rows in batches] == [16, 16, 16, 2]
    assert all(rows.dtype == torch.int32 and rows.shape[1] == 4 for rows in batches)


@pytest.mark.parametrize("skip", [0, 1, 3, 4])
def test_skipping_continues_the_same_epoch(skip):
    data = random_set()
    whole, rest = rows_of(data, plan()), rows_of(data, plan(), skip=skip)
    assert len(rest) == 4 - skip
    assert all(torch.equal(a, b) for a, b in zip(whole[skip:], rest, strict=True))


@pytest.mark.parametrize("world_size", [2, 3])
def test_shares_together_are_the_batch_of_one_process(world_size):
    data = random_set()
    shares = [
        rows_of(data, plan(share=Share(rank, world_size)), skip=1) for rank in range(world_size)
    ]
    for whole, *parts in zip(rows_of(data, plan(), skip=1), *shares, strict=True):
        for rank, part in enumerate(parts):
            assert torch.equal(part, whole[rank::world_size])


def test_test_batches_cover_the_test_set_once():
    data = random_set()
    shares = [Share(rank, 3) for rank in range(3)]
    found = [torch.cat([n for (n,) in data.test_batches(5, share)]) for share in shares]
    assert torch.cat(found).sort().values.tolist() == list(range(23))
    assert [len(part) for part in found] == [8, 8, 7]
    assert list(random_set(num_test=2).test_batches(5, Share(2, 3))) == []


def test_test_images_are_shown_as_they_are():
    data = random_set()
    for (numbers,) in data.test_batches(10):
        images, labels = data.look_up_test(numbers)
        for number, image, label in zip(numbers.tolist(), images, labels, strict=True):
            torch.testing.assert_close(image, normalised(data.test_images[number]))
            assert label == data.test_labels[number]


def test_the_global_generator_is_left_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    rows_of(random_set(), plan())
    assert torch.equal(torch.rand(3), expected)


def test_the_set_says_what_it_holds():
    data = random_set().to(torch.device("cpu"))
    assert (data.num_train, data.num_test, data.num_channels) == (50, 23, 3)
    assert data.reports_top5 is False


def test_impossible_shares_and_plans_are_refused():
    with pytest.raises(ValueError, match=r"rank=2, world_size=2"):
        Share(2, 2)
    with pytest.raises(ValueError, match=r"batch_size=0.*at least 1"):
        plan(batch_size=0)
