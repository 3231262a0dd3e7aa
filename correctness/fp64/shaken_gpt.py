"""How far fp32 may be from a GPT's loss and gradients: forward and backward by the kernels' formulas
(kernels/kernels.hpp), in numbers that are shaken by every rounding (shaken.py).

Only their spread is used: what a dump is compared with is what `autograd` makes of the loss.
"""

import dataclasses

import numpy as np

from fp64.bounds import BF16_TINY, BF16_UNIT, TINY
from fp64.shaken import SAMPLES, Shaken, constant, every_run, exact, softmax, spread
from fp64.formulas import seen


def transposed(x):
    return x.map(lambda a: np.swapaxes(a, -1, -2))


@dataclasses.dataclass
class Errors:
    """What fp32 makes of an array in each run, and what storing it adds at most, element by element."""

    runs: np.ndarray
    stored: np.ndarray | float = 0.0

    def bound(self):
        return spread(self.runs) + TINY + self.stored


class ShakenGpt:
    def __init__(self, config, formulas):
        self.layers, self.heads, self.width = config["layers"], config["heads"], config["width"]
        self.tied = config["tied"]
        self.batch, self.length = config["micro_batch_size"], config["sequence"]
        self.rows = self.batch * self.length
        self.half = config["recipe"] == "bf16"
        self.formulas = formulas

    def errors(self, weights, inputs, targets, seed=0):
        """Of the loss, and of the gradients by name. Other seeds shake independently."""
        loss, gradients = self.loss_and_gradients(weights, inputs, targets, seed)
        return Errors(loss.value), {name: self._of_gradient(name, g.value) for name, g in gradients.items()}

    def _of_gradient(self, name, runs):
        if not self.half:
            return Errors(runs)
        # Stored as bf16; of a tied table the head's part before the rest is added, too.
        stored = np.abs(runs).max(axis=0) + spread(runs) + TINY
        if self.tied and name == "embeddings.token.weight":
            stored = stored + np.abs(self.head_part).max(axis=0)
        return Errors(runs, BF16_UNIT * stored + 2 * BF16_TINY)

    def loss_and_gradients(self, weights, inputs, targets, seed=0):
        """Of every run."""
        Shaken.random = np.random.default_rng(seed)
        self.scale = exact(1.0) / constant((self.width // self.heads) ** self.formulas.score_power, 4)
        self.share = constant(1 / self.rows, 2)
        self.weights = {name: exact(value) for name, value in weights.items()}
        self.gradients = {}
        inputs, targets = inputs.reshape(-1), targets.reshape(-1)
        x = self._embed(inputs)
        blocks = []
        for layer in range(self.layers):
            x, kept = self._block(f"block.{layer}.", x)
            blocks.append(kept)
        loss, d = self._head(x, targets)
        for layer in reversed(range(self.layers)):
            d = self._block_backward(f"block.{layer}.", blocks[layer], d)
        self._embed_backward(inputs, d)
        return loss, self.gradients

    def _store(self, name, gradient):
        self.gradients[name] = gradient

    def _embed(self, inputs):
        token, position = self.weights["embeddings.token.weight"], self.weights["embeddings.position.weight"]
        places = np.tile(np.arange(self.length), self.batch)
        return every_run(token.value[inputs]) + exact(position.value[places])

    # Rows are added to their token's in turn; a tied table holds the head's part already.
    def _embed_backward(self, inputs, d):
        name = "embeddings.token.weight"
        vocabulary = len(self.weights[name].value)
        rows = exact(np.eye(vocabulary)[:, inputs]) @ d
        if self.tied:
            self.head_part = self.gradients[name].value
            rows = rows + self.gradients[name]
        self._store(name, rows)
        position = np.zeros((SAMPLES, *self.weights["embeddings.position.weight"].value.shape))
        used = d.map(lambda a: a.reshape(SAMPLES, self.batch, self.length, -1)).sum(1)
        position[:, : self.length] = used.value
        self._store("embeddings.position.weight", Shaken(position))

    def _norm(self, name, x):
        n = exact(float(self.width))
        mean = x.sum(-1, True) / n
        centred = x - mean
        variance = (centred * centred).sum(-1, True) / n
        rstd = exact(1.0) / (variance + constant(self.formulas.norm_epsilon, 2)).sqrt()
        scaled = centred * rstd
        return scaled * self.weights[name + ".weight"] + self.weights[name + ".bias"], (scaled, rstd)

    def _norm_backward(self, name, kept, dy):
        scaled, rstd = kept
        n = exact(float(self.width))
        h = dy * self.weights[name + ".weight"]
        self._store(name + ".weight", (dy * scaled).sum(-2))
        self._store(name + ".bias", dy.sum(-2))
        return (h - h.sum(-1, True) / n - scaled * ((h * scaled).sum(-1, True) / n)) * rstd

    def _linear(self, name, x):
        return x @ transposed(self.weights[name + ".weight"]) + self.weights[name + ".bias"]

    def _linear_backward(self, name, x, dy):
        self._store(name + ".bias", dy.sum(-2))
        self._store(name + ".weight", transposed(dy) @ x)
        return dy @ self.weights[name + ".weight"]

    def _gelu_inner(self, x):
        f = self.formulas
        return (((x * x) * x * constant(f.gelu_cubic, 2) + x) * constant(f.gelu_root, 2)).tanh()

    def _gelu(self, x):
        return (exact(0.5) * x) * (exact(1.0) + self._gelu_inner(x))

    def _gelu_backward(self, x, dy):
        f = self.formulas
        t = self._gelu_inner(x)
        slope = (constant(3 * f.gelu_cubic, 2) * x * x + exact(1.0)) * constant(f.gelu_root, 2)
        one = exact(1.0)
        return dy * ((exact(0.5) * x) * (one - t * t) * slope + exact(0.5) * (one + t))

    def _apart(self, qkv):
        """q, k and v, each (batch, head, token, depth)."""
        shape = (SAMPLES, self.batch, self.length, 3, self.heads, self.width // self.heads)
        return [qkv.map(lambda a, i=i: a.reshape(shape)[:, :, :, i].transpose(0, 1, 3, 2, 4)) for i in range(3)]

    def _together(self, parts):
        """The inverse; of one part as of three."""
        each = [p.value.transpose(0, 1, 3, 2, 4).reshape(SAMPLES, self.rows, -1) for p in parts]
        return Shaken(np.concatenate(each, axis=-1))

    def _attend(self, qkv):
        q, k, v = self._apart(qkv)
        p, _ = softmax((q @ transposed(k)) * self.scale, seen(self.length, self.formulas))
        return self._together([p @ v]), (q, k, v, p)

    def _attend_backward(self, kept, d):
        q, k, v, p = kept
        shape = (SAMPLES, self.batch, self.length, self.heads, self.width // self.heads)
        d = d.map(lambda a: a.reshape(shape).transpose(0, 1, 3, 2, 4))
        dp = d @ transposed(v)
        ds = (p * (dp - (dp * p).sum(-1, True))) * self.scale
        return self._together([ds @ k, transposed(ds) @ q, transposed(p) @ d])

    def _block(self, block, x):
        kept = {}
        kept["y1"], kept["norm1"] = self._norm(block + "norm1", x)
        kept["a"], kept["attention"] = self._attend(self._linear(block + "qkv", kept["y1"]))
        middle = self._linear(block + "out", kept["a"]) + x
        kept["y2"], kept["norm2"] = self._norm(block + "norm2", middle)
        kept["up"] = self._linear(block + "up", kept["y2"])
        kept["gelu"] = self._gelu(kept["up"])
        return self._linear(block + "down", kept["gelu"]) + middle, kept

    def _block_backward(self, block, kept, d):
        wide = self._gelu_backward(kept["up"], self._linear_backward(block + "down", kept["gelu"], d))
        narrow = self._linear_backward(block + "up", kept["y2"], wide)
        d = d + self._norm_backward(block + "norm2", kept["norm2"], narrow)
        narrow = self._linear_backward(block + "out", kept["a"], d)
        qkv = self._attend_backward(kept["attention"], narrow)
        narrow = self._linear_backward(block + "qkv", kept["y1"], qkv)
        return d + self._norm_backward(block + "norm1", kept["norm1"], narrow)

    def _head(self, x, targets):
        y, kept = self._norm("head.norm", x)
        name = "embeddings.token.weight" if self.tied else "head.weight"
        logits = y @ transposed(self.weights[name])
        probabilities, logarithm = softmax(logits)
        rows = np.arange(self.rows)
        losses = logarithm - logits.map(lambda a: a[:, rows, targets])
        loss = losses.sum(-1) / exact(float(self.rows))
        hot = np.zeros(logits.value.shape[1:])
        hot[rows, targets] = 1
        d = (probabilities - exact(hot)) * self.share
        self._store(name, transposed(d) @ y)
        return loss, self._norm_backward("head.norm", kept, d @ self.weights[name])
