"""Language models: texts as tokens, the networks, and how well these predict."""

from binaryrelax_lab.language.corpus import (
    Corpus as Corpus,
    Text as Text,
    load_corpus as load_corpus,
)
from binaryrelax_lab.language.counts import Bigrams as Bigrams
from binaryrelax_lab.language.language_task import (
    LanguageData as LanguageData,
    LanguageTask as LanguageTask,
)
from binaryrelax_lab.language.llama import (
    SIZES as SIZES,
    build_llama as build_llama,
    weights_of_layers as weights_of_layers,
)
from binaryrelax_lab.language.perplexity import TextLoss as TextLoss, losses as losses
from binaryrelax_lab.language.requirements import LanguageExtraMissing as LanguageExtraMissing
from binaryrelax_lab.language.samples import continue_text as continue_text
from binaryrelax_lab.language.texts import CorpusNotFound as CorpusNotFound
from binaryrelax_lab.language.windows import (
    Windows as Windows,
    test_windows as test_windows,
    training_windows as training_windows,
)
