"""One training loop for float and quantized networks, and the files that a run leaves behind."""

from binaryrelax_lab.engine.feasibility import refuse_impossible as refuse_impossible
from binaryrelax_lab.engine.inspection import inspect_layers as inspect_layers
from binaryrelax_lab.engine.job import (
    Job as Job,
    job_with_ancestor as job_with_ancestor,
    jobs_of as jobs_of,
)
from binaryrelax_lab.engine.listener import Listener as Listener, Several as Several
from binaryrelax_lab.engine.machine import (
    Machine as Machine,
    one_thread as one_thread,
    require_precision as require_precision,
    this_machine as this_machine,
)
from binaryrelax_lab.engine.network import UnfitStart as UnfitStart
from binaryrelax_lab.engine.run import (
    RunOptions as RunOptions,
    RunStopped as RunStopped,
    refuse_other_data as refuse_other_data,
    train as train,
    train_all as train_all,
)
from binaryrelax_lab.engine.run_folder import (
    FolderInUse as FolderInUse,
    HoldsOtherRun as HoldsOtherRun,
    HoldsRun as HoldsRun,
    LostNetwork as LostNetwork,
    RunFolder as RunFolder,
    State as State,
    sole_use as sole_use,
)
from binaryrelax_lab.engine.task import Material as Material
from binaryrelax_lab.engine.trainer import Diverged as Diverged
from binaryrelax_lab.files import (
    FINAL_NAME as FINAL_NAME,
    HISTOGRAMS_NAME as HISTOGRAMS_NAME,
    RESULT_NAME as RESULT_NAME,
    digest_of as digest_of,
    read_json as read_json,
    write_atomically as write_atomically,
    write_json as write_json,
)
