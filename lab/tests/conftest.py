"""One thread for all tests of the lab, and five tiny runs for those that only read."""

import pytest
from lab.tests.support.tiny import METHODS, tiny_data, tiny_recipe

from binaryrelax_lab.engine import FINAL_NAME, Job, one_thread, train


@pytest.fixture(scope="package", autouse=True)
def single_thread():
    """These networks are too small to share among threads."""
    with one_thread():
        yield


@pytest.fixture(scope="session")
def tiny_runs(tmp_path_factory):
    """The folder that holds one run folder per method."""
    out = tmp_path_factory.mktemp("runs")
    data = tiny_data()
    for method in METHODS:
        recipe = tiny_recipe(method)
        initial = out / recipe.starts_from / FINAL_NAME if recipe.starts_from else None
        train(Job(recipe, 0, out / recipe.name, initial), data)
    return out
