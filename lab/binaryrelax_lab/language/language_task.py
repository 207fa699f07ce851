"""Training on text: the next token's loss, AdamW, and the loss on the validation text."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

from binaryrelax import Binary, SelectedWeights
from binaryrelax_lab.data import Share
from binaryrelax_lab.engine.machine import Machine
from binaryrelax_lab.engine.task import Evaluator, Material, Measured, Note, Task
from binaryrelax_lab.language.corpus import Corpus, Text
from binaryrelax_lab.language.counts import Bigrams
from binaryrelax_lab.language.llama import build_llama, weights_of_layers
from binaryrelax_lab.language.parq import Parq
from binaryrelax_lab.language.perplexity import losses
from binaryrelax_lab.language.requirements import needed_torchao
from binaryrelax_lab.language.samples import continue_text
from binaryrelax_lab.language.windows import Windows, training_windows
from binaryrelax_lab.recipes import LanguageRecipe, Recipe
from binaryrelax_lab.results import (
    VALIDATION,
    LanguageEpoch,
    LanguageResult,
    LanguageSummary,
    Sample,
    TextScore,
)

CPU_TOKENS, GPU_TOKENS = 2048, 65_536  # of the validation text, that each epoch is measured on
CPU_TOKENS_AT_ONCE, GPU_TOKENS_AT_ONCE = 2048, 32_768
PROMPTS = ("The", "In the beginning", "She said that")
SAMPLE_TOKENS, TEMPERATURE = 64, 0.8


@dataclass(frozen=True)
class LanguageTask(Task):
    """See `Task`."""

    recipe: LanguageRecipe
    data: LanguageData
    device: torch.device = torch.device("cpu")  # noqa: RUF009 (a device is immutable)

    result_type = LanguageResult

    @property
    def corpus(self) -> Corpus:
        """The texts."""
        return self.data.corpus

    @property
    def clip(self) -> float:  # type: ignore[override]
        return self.recipe.clip

    @property
    def is_capturable(self) -> bool:  # type: ignore[override]
        return not self.recipe.is_parq

    @property
    def num_examples(self) -> int:
        return self.recipe.batch_size * self.recipe.steps_per_epoch

    @property
    def digest(self) -> str:
        return self.corpus.digest

    def to(self, device: torch.device) -> Self:
        return replace(self, device=device)

    def build(self) -> nn.Module:
        return build_llama(self.recipe.network, self.recipe.vocabulary, self.recipe.context)

    def place(self, model: nn.Module, machine: Machine) -> None:
        model.to(machine.device)

    def select(self, model: nn.Module) -> SelectedWeights:
        quantizer = self.recipe.quantizer or Binary()
        return weights_of_layers(model, quantizer, self.recipe.keep_float)

    def base_optimizer(self, model: nn.Module, machine: Machine) -> Optimizer:
        """Weight decay is for the matrices that other methods quantize."""
        decaying = list(self.select(model))
        others = [p for p in model.parameters() if all(p is not q for q in decaying)]
        groups: list[dict[str, Any]] = [
            {"params": decaying},
            {"params": others, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(
            groups,
            lr=self.recipe.lr,
            betas=(self.recipe.momentum, self.recipe.second_momentum),
            weight_decay=self.recipe.weight_decay,
            fused=True,
            capturable=machine.is_gpu,
        )

    def optimizer(
        self, base: Optimizer, weights: SelectedWeights, steps_per_epoch: int
    ) -> Optimizer:
        if not self.recipe.is_parq:
            return super().optimizer(base, weights, steps_per_epoch)
        return Parq(base, weights, hard_from=self.recipe.phase_two_epoch * steps_per_epoch)

    def batches(
        self, *, seed: int, epoch: int, share: Share, skip: int = 0
    ) -> Iterator[tuple[Tensor, ...]]:
        starts = training_windows(
            self.corpus.train,
            count=self.num_examples,
            length=self.recipe.context,
            seed=seed,
            epoch=epoch,
        )
        places = torch.from_numpy(starts).to(self.device)
        for batch in places.split(self.recipe.batch_size)[skip:]:
            yield (share.of(batch),)

    @cached_property
    def _windows(self) -> Windows:
        return Windows(self.corpus.train, self.recipe.context, self.device)

    def loss(self, network: nn.Module, machine: Machine) -> nn.Module:
        return NextTokenLoss(network, self._windows, machine)

    def evaluation(self, model: nn.Module, machine: Machine, note: Note) -> Evaluator:
        return SomeWindows(model, self.corpus.validation, self.recipe, machine)

    def epoch(self, measured: Measured, projected: Measured | None, **facts: Any) -> LanguageEpoch:
        at_projected = None if projected is None else projected["loss"]
        return LanguageEpoch(
            **facts,
            loss=measured["loss"],
            bits_per_byte=measured["bits_per_byte"],
            loss_projected=at_projected,
        )

    def closing(
        self, model: nn.Module, evaluator: Evaluator, machine: Machine, seed: int
    ) -> Mapping[str, Any]:
        """Every text from its beginning to its end, and what the network writes."""
        named = {VALIDATION: self.corpus.validation}
        named |= {text.name: text for text in self.corpus.others}
        return {
            "texts": {name: self._score(model, text, machine) for name, text in named.items()},
            "samples": tuple(
                self._sample(model, prompt, machine, number)
                for number, prompt in enumerate(PROMPTS, start=seed)
            ),
        }

    def ending(
        self, epochs: Sequence[Any], closing: Mapping[str, Any], in_q: bool | None
    ) -> LanguageSummary:
        losses = [record.loss for record in epochs]
        return LanguageSummary(
            last=losses[-1],
            best_phase_two=min(losses[self.recipe.phase_two_epoch :], default=None),
            mean_last_5=fmean(losses[-5:]),
            in_q=in_q,
            **closing,
        )

    def split(self) -> dict[str, str | int]:
        return {
            "corpus": self.corpus.name,
            "corpus_digest": self.corpus.digest,
            "training_text_tokens": len(self.corpus.train.tokens),
            "trained_on_tokens": self.num_examples * self.recipe.epochs * self.recipe.context,
        }

    def _score(self, model: nn.Module, text: Text, machine: Machine) -> TextScore:
        found = losses(
            model,
            text,
            length=self.recipe.context,
            batch_size=windows_at_once(self.recipe.context, machine),
            device=self.device,
            autocast=machine.autocast(),
        )
        return TextScore(
            loss=found.per_token,
            perplexity=found.perplexity,
            bits_per_byte=found.bits_per_byte,
            num_tokens=found.num_tokens,
            bigrams=self.data.bigrams(text),
        )

    def _sample(self, model: nn.Module, prompt: str, machine: Machine, seed: int) -> Sample:
        with machine.autocast():
            text = continue_text(
                model,
                self.corpus,
                prompt,
                num_tokens=SAMPLE_TOKENS,
                temperature=TEMPERATURE,
                seed=seed,
            )
        return Sample(prompt, text)


def windows_at_once(length: int, machine: Machine) -> int:
    """How many windows are measured together."""
    return max(1, (GPU_TOKENS_AT_ONCE if machine.is_gpu else CPU_TOKENS_AT_ONCE) // length)


class NextTokenLoss(nn.Module):
    """The mean loss of a batch of windows, from the places where they begin.

    A module, because torch.compile then shares its work among networks of the same kind.
    """

    def __init__(self, network: nn.Module, windows: Windows, machine: Machine) -> None:
        super().__init__()
        self.network, self.windows, self.machine = network, windows, machine

    def forward(self, starts: Tensor) -> Tensor:
        """The cross entropy, float32."""
        tokens, targets = self.windows.take(starts)
        with self.machine.autocast():
            scores = self.network(input_ids=tokens).logits
        return functional.cross_entropy(scores.float().flatten(0, 1), targets.flatten())


class SomeWindows:
    """Measures on windows that are spread over the validation text, the same ones each time."""

    def __init__(self, model: nn.Module, text: Text, recipe: LanguageRecipe, machine: Machine):
        length = recipe.context
        most = (GPU_TOKENS if machine.is_gpu else CPU_TOKENS) // length
        count = max(1, min(most, (len(text.tokens) - 1) // length))
        self.starts = (
            torch.linspace(0, len(text.tokens) - 1 - length, count).long().to(machine.device)
        )
        self.batch_size = windows_at_once(length, machine)
        self.bytes_per_token = text.num_bytes / len(text.tokens)
        self.loss = NextTokenLoss(model, Windows(text, length, machine.device), machine)

    @torch.no_grad()
    def measured(self) -> Measured:
        """The mean loss, in nats per token."""
        network = self.loss.network
        was_training = network.training
        network.eval()
        batches = self.starts.split(self.batch_size)
        total = sum(self.loss(batch).double() * len(batch) for batch in batches)
        network.train(was_training)
        loss = float(total / len(self.starts))
        return {"loss": loss, "bits_per_byte": loss / math.log(2) / self.bytes_per_token}


class LanguageData(Material):
    """Texts, for every language recipe of their vocabulary."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self._pairs: Bigrams | None = None
        self._losses: dict[str, float] = {}
        self._counting = threading.Lock()  # runs side by side would all count, which takes seconds

    def bigrams(self, text: Text) -> float:
        """The loss of counting pairs of the training tokens, in nats per token."""
        with self._counting:
            if self._pairs is None:
                self._pairs = Bigrams(self.corpus.train.tokens.numpy(), self.corpus.vocabulary)
            if text.name not in self._losses:
                self._losses[text.name] = self._pairs.loss(text)
            return self._losses[text.name]

    def task_for(self, recipe: Recipe) -> LanguageTask:
        if not isinstance(recipe, LanguageRecipe):
            raise ValueError(f"{recipe.name} is trained on images, not on text")
        if recipe.vocabulary != self.corpus.vocabulary:
            raise ValueError(
                f"{recipe.name} has a vocabulary of {recipe.vocabulary} tokens, the corpus "
                f"{self.corpus.vocabulary}"
            )
        if len(self.corpus.validation.tokens) <= recipe.context:
            raise ValueError(
                f"the validation text has {len(self.corpus.validation.tokens)} tokens, fewer than "
                f"one window of {recipe.name} ({recipe.context} and the next); bring a longer one"
            )
        if recipe.is_parq:
            needed_torchao("torchao.prototype.parq")  # before anything is trained
        return LanguageTask(recipe, self)
