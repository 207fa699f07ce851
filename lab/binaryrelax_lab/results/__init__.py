"""What runs have left behind, typed: read once, here, and made into statistics and tables."""

from binaryrelax_lab.results.collection import (
    Collection as Collection,
    collect_runs as collect_runs,
    read_run as read_run,
)
from binaryrelax_lab.results.run_result import (
    EpochRecord as EpochRecord,
    LayerFacts as LayerFacts,
    NetworkSize as NetworkSize,
    RecipeFacts as RecipeFacts,
    RunResult as RunResult,
    Start as Start,
    Summary as Summary,
    Weights as Weights,
)
from binaryrelax_lab.results.weight_histograms import (
    Snapshot as Snapshot,
    WeightHistograms as WeightHistograms,
)
