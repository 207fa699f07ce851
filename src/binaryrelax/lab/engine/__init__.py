"""One training loop for float and quantized networks, and the files that a run leaves behind."""

from binaryrelax.lab.engine.files import (
    FINAL_NAME as FINAL_NAME,
    HISTOGRAMS_NAME as HISTOGRAMS_NAME,
    RESULT_NAME as RESULT_NAME,
    digest_of as digest_of,
    read_json as read_json,
    write_atomically as write_atomically,
)
from binaryrelax.lab.engine.inspection import inspect_layers as inspect_layers
from binaryrelax.lab.engine.listener import Listener as Listener, Silent as Silent
from binaryrelax.lab.engine.run import is_finished as is_finished, train as train
