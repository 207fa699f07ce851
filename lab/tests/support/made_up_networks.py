"""What `bench networks` and `bench profile` could have written, of two networks."""

import json

from binaryrelax_lab.report.figures import Evidence
from binaryrelax_lab.report.figures.measured_networks import NETWORKS
from binaryrelax_lab.report.figures.network_profile import PROFILE

OURS = {"ours, exact": 2e-3, "ours, fast": 1e-3}
OTHERS = {"torch float32": 8e-3, "ONNX Runtime float32": 3e-3, "OpenVINO int8": 1.5e-3}
SIDES = {"resnet20": 32, "resnet18-imagenet": 224}


def made_up_networks(**changes):
    """The content of networks.json."""
    content = {
        "machine": {"cpu": "a CPU", "threads": 2, "torch": "2.13.0", "load": 0.0},
        "instructions": ["avx2"],
        "native": "avx2",
        "engines": {"binaryrelax_native": "0.2.0", "OpenVINO": "2026.4"},
        "missing": [],
        "repetitions": 12,
        "starts": 7,
        "records": list(_records()),
        "files": [_file("float32", 44_000_000), _file("ours, fast, 1 bit", 1_400_000)],
        "first_answers": [_answer("ours, fast", 0.1), _answer("torch float32", 0.9)],
        "accuracies": [_accuracy("ours, exact", 92.0), _accuracy("ours, fast", 91.7)],
        "runtimes": [
            {
                "engine": "binaryrelax_native",
                "version": "0.2.0",
                "wheel_bytes": 400_000,
                "installed_bytes": 1_000_000,
            }
        ],
        "machine_was_shared": True,
    }
    return content | changes


def _records():
    for batch in (1, 16):
        for network, side in SIDES.items():
            engines = [(e, w, s) for w in ("1 bit", "ternary") for e, s in OURS.items()]
            engines += [(engine, "1 bit", seconds) for engine, seconds in OTHERS.items()]
            for engine, weights, seconds in engines:
                yield {
                    "network": network,
                    "dataset": "cifar10",
                    "side": side,
                    "weights": weights,
                    "batch": batch,
                    "engine": engine,
                    "seconds": batch * seconds * (2 if side == 224 and "ours" in engine else 1),
                    "median_seconds": 2 * batch * seconds,
                    "error": 1e-7,
                }


def _file(name, size):
    return {"network": "resnet18", "dataset": "cifar10", "file": name, "bytes": size}


def _answer(engine, seconds):
    return {"engine": engine, "seconds": seconds, "median_seconds": seconds, "peak_mb": 32.0}


def _accuracy(engine, accuracy):
    return {
        "network": "resnet20",
        "dataset": "cifar10",
        "weights": "1 bit",
        "engine": engine,
        "accuracy": accuracy,
        "images": 10_000,
    }


PROFILED = {
    "machine": {"cpu": "a CPU", "threads": 1},
    "native": "avx2",
    "weights": "ternary",
    "repetitions": 200,
    "machine_was_shared": False,
    "networks": [
        {
            "network": "resnet20",
            "side": 32,
            "int8_peak": 2e11,
            "steps": [
                {"name": "begin", "macs": 0, "seconds": 1e-6},
                {"name": "value 0: to bytes", "macs": 0, "seconds": 1e-4},
                {"name": "conv1", "macs": 50_000_000, "seconds": 5e-4},
            ],
        }
    ],
}


def evidence_of(root, networks, profile=None):
    """Evidence that holds these files alone."""
    for name, content in ((NETWORKS, networks), (PROFILE, profile)):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return Evidence(root)
