"""What processes tell each other: two real ones, and one alone."""

import time

import pytest
import torch
from torch import distributed

from binaryrelax_lab.data import Share
from binaryrelax_lab.engine import FolderInUse
from binaryrelax_lab.engine.ranks import Ranks
from tests.support.ranks import run_on_ranks


def this_rank():
    share = Share(distributed.get_rank(), distributed.get_world_size())
    return Ranks(share, is_group=True)


def exchanges(ranks):
    """Each of them once; numbers differ from rank to rank."""
    own = torch.tensor([1.0, 10.0 * ranks.share.rank])
    buffers = [torch.tensor(ranks.share.rank), own.clone()]
    ranks.take_from_first(buffers)
    return {
        "gathered": ranks.gathered(own).tolist(),
        "total": ranks.total(own).tolist(),
        "all have 3": ranks.all_have(3),
        "all have the same rank": ranks.all_have(ranks.share.rank),
        "the last wishes": ranks.any_wishes(ranks.share.rank == 1),
        "nobody wishes": ranks.any_wishes(False),
        "buffers": [buffer.tolist() for buffer in buffers],
    }


def turns(ranks, diary):
    """Every process writes down when its turn begins and when it ends."""

    def work():
        with diary.open("a") as file:
            file.write(f"{ranks.share.rank} begins\n")
        time.sleep(0.2)
        with diary.open("a") as file:
            file.write(f"{ranks.share.rank} ends\n")

    ranks.in_turn(work)
    return diary.read_text().splitlines()


def failure(ranks, diary):
    """What each process hears if the first one fails; the turn of the other must not come."""

    def work():
        with diary.open("a") as file:
            file.write(f"{ranks.share.rank} fails\n")
        raise OSError(f"the disk of rank {ranks.share.rank} is full")

    with pytest.raises((ValueError, OSError), match="is full") as caught:
        ranks.in_turn(work)
    return str(caught.value), diary.read_text()


def kind_of_failure(ranks):
    """What kind of error each process gets: the command's way out depends on it."""

    def work():
        raise FolderInUse("another process trains there")

    with pytest.raises(ValueError) as caught:
        ranks.in_turn(work)
    return caught.type.__name__


def all_of_it(folder):
    """Processes take long to start: they do everything in one go."""
    ranks = this_rank()
    ranks.wait_for_all()
    said = exchanges(ranks), turns(ranks, folder / "turns"), failure(ranks, folder / "failure")
    kind = kind_of_failure(ranks)
    ranks.wait_for_all()  # they can go on together after a failure
    return *said, kind


def test_two_ranks_exchange_and_take_turns(tmp_path):
    first, second = run_on_ranks(all_of_it, 2, tmp_path, tmp_path)
    assert first == second
    exchanged, in_turns, (words, failed), kind = first
    assert kind == "FolderInUse"
    assert exchanged == {
        "gathered": [[1.0, 0.0], [1.0, 10.0]],
        "total": [2.0, 10.0],
        "all have 3": True,
        "all have the same rank": False,
        "the last wishes": True,
        "nobody wishes": False,
        "buffers": [0, [1.0, 0.0]],
    }
    assert in_turns == ["0 begins", "0 ends", "1 begins", "1 ends"]
    assert (words, failed) == ("the disk of rank 0 is full", "0 fails\n")


def test_a_process_alone_speaks_to_itself(tmp_path):
    ranks = Ranks()
    ranks.wait_for_all()
    assert ranks.is_first
    assert exchanges(ranks) == {
        "gathered": [[1.0, 0.0]],
        "total": [1.0, 0.0],
        "all have 3": True,
        "all have the same rank": True,
        "the last wishes": False,
        "nobody wishes": False,
        "buffers": [0, [1.0, 0.0]],
    }
    assert turns(ranks, tmp_path / "turns") == ["0 begins", "0 ends"]
    assert failure(ranks, tmp_path / "failure") == ("the disk of rank 0 is full", "0 fails\n")
