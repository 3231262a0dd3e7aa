"""What is computed, in fp64: a GPT's loss by NumPy as `autograd` differentiates it, and the numbers in its formulas.

Written from the definitions of GPT-2, layer norm, AdamW and SGD; it shares no code with the program that it judges.
Each name in WRONG is a mistake that is made in practice; an oracle that makes it must disagree.
"""

import dataclasses
import math

import autograd.numpy as np
from autograd import value_and_grad
from autograd.tracer import getval


@dataclasses.dataclass(frozen=True)
class Formulas:
    """Numbers and choices of the formulas, as they should be."""

    gelu_root: float = math.sqrt(2 / math.pi)
    gelu_cubic: float = 0.044715
    norm_epsilon: float = 1e-5
    score_power: float = 0.5  # scores are divided by (width of a head) to this power
    sees_next: int = 0  # so many tokens ahead
    divides_gradients_by: str = "micro_batches"
    squares_norm: bool = False
    clips: bool = True
    decays_vectors: bool = False
    decay_in_gradient: bool = False  # adamw's decay is decoupled, sgd's is part of the gradient
    corrects_bias: bool = True
    remembers: bool = True  # moments
    rounds_to_nearest: bool = True
    adds_head_to_table: bool = True  # tied


def _always(_):
    return True


def _adamw(config):
    return config["optimizer"] == "adamw"


def _decays(config):
    return config["weight_decay"] > 0


# Name: the formula that is wrong, and of which runs it shows.
WRONG = {
    "gelu": ({"gelu_cubic": 0.44715}, _always),
    "gelu-digit": ({"gelu_cubic": 0.0457}, _always),  # seen where weights are large enough (slips.py)
    "gelu-root": ({"gelu_root": 0.8}, _always),
    "epsilon": ({"norm_epsilon": 1e-6}, _always),
    "scale": ({"score_power": 1.0}, _always),
    "mask": ({"sees_next": 1}, _always),
    "average": ({"divides_gradients_by": "ranks"}, lambda config: config["ranks"] != config["micro_batches"]),
    "norm": ({"squares_norm": True}, _always),
    "clip": ({"clips": False}, lambda config: config["clip"] > 0),
    "decay": ({"decays_vectors": True}, _decays),
    "coupled": ({"decay_in_gradient": True}, lambda config: _adamw(config) and _decays(config)),
    "correction": ({"corrects_bias": False}, _adamw),
    "momentum": ({"remembers": False}, _always),
    "rounding": ({"rounds_to_nearest": False}, lambda config: config["recipe"] != "fp32"),
    "tied": ({"adds_head_to_table": False}, lambda config: config["tied"]),
}


def wrong(name):
    """Formulas with one mistake."""
    return dataclasses.replace(Formulas(), **WRONG[name][0])


def seen(length, formulas):
    """Which token (column) each token (row) attends to."""
    return np.tri(length, k=formulas.sees_next) > 0


class Gpt:
    """Loss and gradients of one micro-batch; weights by name, linears stored (out, in)."""

    def __init__(self, config, positions, formulas):
        self.layers, self.heads, self.tied = config["layers"], config["heads"], config["tied"]
        self.shape = (config["micro_batch_size"], config["sequence"])
        self.positions = positions
        self.formulas = formulas
        self.loss_and_gradients = value_and_grad(self.loss)

    def head_weight(self, weights):
        if not self.tied:
            return weights["head.weight"]
        table = weights["embeddings.token.weight"]
        return table if self.formulas.adds_head_to_table else getval(table)

    def loss(self, weights, inputs, targets):
        rows = inputs.size
        x = weights["embeddings.token.weight"][inputs] + weights["embeddings.position.weight"][: self.shape[1]]
        for layer in range(self.layers):
            x = self._block(weights, f"block.{layer}.", x)
        logits = self._norm(weights, "head.norm", x) @ self.head_weight(weights).T
        logits = np.reshape(logits, (rows, -1))
        most = np.max(logits, axis=1, keepdims=True)
        normaliser = np.log(np.sum(np.exp(logits - most), axis=1)) + most[:, 0]
        return np.mean(normaliser - logits[np.arange(rows), np.reshape(targets, rows)])

    def _norm(self, weights, name, x):
        centred = x - np.mean(x, axis=-1, keepdims=True)
        variance = np.mean(centred**2, axis=-1, keepdims=True)
        scaled = centred / np.sqrt(variance + self.formulas.norm_epsilon)
        return scaled * weights[name + ".weight"] + weights[name + ".bias"]

    def _linear(self, weights, name, x):
        return x @ weights[name + ".weight"].T + weights[name + ".bias"]

    def _gelu(self, x):
        f = self.formulas
        return 0.5 * x * (1 + np.tanh(f.gelu_root * (x + f.gelu_cubic * x**3)))

    def _attend(self, qkv):
        batch, length = self.shape
        depth = qkv.shape[-1] // 3 // self.heads
        split = np.reshape(qkv, (batch, length, 3, self.heads, depth))
        q, k, v = (np.transpose(split[:, :, i], (0, 2, 1, 3)) for i in range(3))
        scores = (q @ np.transpose(k, (0, 1, 3, 2))) / depth**self.formulas.score_power
        scores = np.where(seen(length, self.formulas), scores, -np.inf)
        exponents = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
        out = (exponents / np.sum(exponents, axis=-1, keepdims=True)) @ v
        return np.reshape(np.transpose(out, (0, 2, 1, 3)), (batch, length, -1))

    def _block(self, weights, block, x):
        qkv = self._linear(weights, block + "qkv", self._norm(weights, block + "norm1", x))
        x = x + self._linear(weights, block + "out", self._attend(qkv))
        up = self._linear(weights, block + "up", self._norm(weights, block + "norm2", x))
        return x + self._linear(weights, block + "down", self._gelu(up))
