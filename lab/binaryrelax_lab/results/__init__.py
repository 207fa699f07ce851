"""What runs have left behind, typed: read once, here, and made into statistics and tables."""

from binaryrelax_lab.results.any_result import result_from_json as result_from_json
from binaryrelax_lab.results.collection import (
    Collection as Collection,
    collect_runs as collect_runs,
    read_run as read_run,
)
from binaryrelax_lab.results.language_result import (
    VALIDATION as VALIDATION,
    LanguageEpoch as LanguageEpoch,
    LanguageResult as LanguageResult,
    LanguageSummary as LanguageSummary,
    Sample as Sample,
    TextScore as TextScore,
    perplexity_of as perplexity_of,
)
from binaryrelax_lab.results.run_result import (
    EpochRecord as EpochRecord,
    RunResult as RunResult,
    Summary as Summary,
)
from binaryrelax_lab.results.training_result import (
    Ending as Ending,
    Epoch as Epoch,
    LayerFacts as LayerFacts,
    NetworkSize as NetworkSize,
    RecipeFacts as RecipeFacts,
    Start as Start,
    TrainingResult as TrainingResult,
    Weights as Weights,
)
from binaryrelax_lab.results.weight_histograms import (
    Snapshot as Snapshot,
    WeightHistograms as WeightHistograms,
)
