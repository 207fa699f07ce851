"""One training loop for float and quantized networks, and the files that a run leaves behind."""

from binaryrelax.lab.engine.feasibility import refuse_impossible as refuse_impossible
from binaryrelax.lab.engine.files import (
    FINAL_NAME as FINAL_NAME,
    HISTOGRAMS_NAME as HISTOGRAMS_NAME,
    RESULT_NAME as RESULT_NAME,
    digest_of as digest_of,
    read_json as read_json,
    write_atomically as write_atomically,
    write_json as write_json,
)
from binaryrelax.lab.engine.inspection import inspect_layers as inspect_layers
from binaryrelax.lab.engine.job import Job as Job
from binaryrelax.lab.engine.listener import Listener as Listener, Several as Several
from binaryrelax.lab.engine.lock import sole_use as sole_use
from binaryrelax.lab.engine.machine import (
    Machine as Machine,
    require_precision as require_precision,
    this_machine as this_machine,
)
from binaryrelax.lab.engine.resuming import (
    recipe_in as recipe_in,
    refuse_losing_runs as refuse_losing_runs,
    refuse_other_runs as refuse_other_runs,
)
from binaryrelax.lab.engine.run import (
    RunOptions as RunOptions,
    RunStopped as RunStopped,
    train as train,
)
