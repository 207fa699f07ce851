"""Small campaigns, and what they do."""

import threading

from lab.tests.support.tiny import METHODS, tiny_data, tiny_recipe

from binaryrelax_lab.campaign import run_campaign
from binaryrelax_lab.engine import Listener, Machine, read_json


def small_table(epochs=2):
    """One row of a table: five networks on a few images."""
    return tuple(tiny_recipe(method, epochs) for method in METHODS)


class Diary:
    """What a campaign does, in the order in which it happens; one listener per run."""

    def __init__(self):
        self.events, self.num_steps, self.at_once, self.most_at_once = [], 0, 0, 0
        self._lock = threading.Lock()

    def listener_of(self, job):
        return _Entries(self, f"{job.recipe.method} {job.seed}")

    def add(self, name, what, *, more=0):
        with self._lock:
            self.events.append((what, name))
            self.at_once += more
            self.most_at_once = max(self.most_at_once, self.at_once)

    def add_step(self):
        with self._lock:
            self.num_steps += 1

    def names(self, what):
        return [name for event, name in self.events if event == what]


class _Entries(Listener):
    def __init__(self, diary, name):
        self.diary, self.name = diary, name

    def run_started(self, recipe, steps_per_epoch, steps_done):
        self.diary.add(self.name, "resumed" if steps_done else "begun", more=1)

    def step_finished(self, num_images):
        self.diary.add_step()

    def run_finished(self, result):
        self.diary.add(self.name, "finished", more=-1)


def carry_on(
    campaign, diary=None, *, num_jobs=2, should_stop=lambda: False, machine=None, data=None
):
    """Trains what is missing, as the command does."""
    diary = diary or Diary()
    return run_campaign(
        campaign,
        data or tiny_data(),
        machine=machine or Machine(),
        num_jobs=num_jobs,
        should_stop=should_stop,
        listener_of=diary.listener_of,
    )


def evidence(campaign):
    """What must not depend on how often a campaign was stopped."""
    found = {}
    for job in campaign.jobs():
        result = read_json(campaign.result_file(job))
        found[job.recipe.name, job.seed] = result["weights"], result["epochs"], result["recipe"]
    return found


def stopping_after(num_steps, diary):
    """What tells a campaign to stop once its runs have taken so many steps together."""
    return lambda: diary.num_steps >= num_steps
