"""How far a whole forward and backward in fp32 may be from fp64.

[Note: where the tolerance of a gradient comes from]
Bounds that add up worst cases double with every layer, until they say nothing. So here each operation of the kernels'
formulas is done in fp64 and then moved, up or down at random, by the most that its rounding can amount to: 2^-24 of
the result; n 2^-24 of the sum of magnitudes for a sum of n terms, which holds for any order and with or without fused
multiply-add; 1.11 and 1.34 units in the last place for exp and tanh (tried over all of fp32; a unit is at most 2^-23
of the value). These two are approximations, which err alike for like arguments in every layer: in half of the runs
all of them are moved up once more, in the other half down. SAMPLES such runs give each gradient element's standard
deviation s, around their own mean, with all that errors of different elements have in common. The program's own
roundings are no larger and have no preferred sign, so its deviation over s is at most Student's t with SAMPLES - 1
degrees of freedom, which exceeds TAIL with a probability below 10^-16. The only constants are those of the formats,
that probability, and the number of runs.
"""

import numpy as np

from fp64.bounds import TINY, UNIT, growth

SAMPLES = 32
TAIL = 17.0
EXP_ERROR = 1.11 * 2 * UNIT
TANH_ERROR = 1.34 * 2 * UNIT
EXP_WAY = np.resize([1, -1], SAMPLES)
TANH_WAY = np.resize([1, 1, -1, -1], SAMPLES)


class Shaken:
    """An fp64 value for each run, along the first axis; what is exact may lack that axis."""

    random = np.random.default_rng(0)

    def __init__(self, value):
        self.value = value

    @staticmethod
    def of(value, bound):
        """`value`, moved by `bound` either way in each run."""
        signs = 1 - 2 * Shaken.random.integers(0, 2, size=value.shape, dtype=np.int8)
        return Shaken(value + signs * (bound + TINY))

    @staticmethod
    def approximated(value, bound, way):
        """The same, and each run as a whole once more: 1 for up, -1 for down."""
        return Shaken.of(value + np.reshape(way, (-1,) + (1,) * (value.ndim - 1)) * bound, bound)

    @staticmethod
    def rounded(value):
        return Shaken.of(value, UNIT * np.abs(value))

    def map(self, move):
        """The same elements elsewhere."""
        return Shaken(move(self.value))

    def __add__(self, other):
        return Shaken.rounded(self.value + other.value)

    def __sub__(self, other):
        return Shaken.rounded(self.value - other.value)

    def __mul__(self, other):
        return Shaken.rounded(self.value * other.value)

    def __truediv__(self, other):
        return Shaken.rounded(self.value / other.value)

    def __matmul__(self, other):
        a, b = self.value, other.value
        return Shaken.of(a @ b, growth(a.shape[-1] + 1) * (np.abs(a) @ np.abs(b)))

    def sum(self, axis, keepdims=False):
        magnitude = np.abs(self.value).sum(axis, keepdims=keepdims)
        return Shaken.of(self.value.sum(axis, keepdims=keepdims), growth(self.value.shape[axis]) * magnitude)

    def sqrt(self):
        return Shaken.rounded(np.sqrt(self.value))

    def tanh(self):
        t = np.tanh(self.value)
        return Shaken.approximated(t, TANH_ERROR * np.abs(t), TANH_WAY)


def spread(runs):
    """How far from their mean one more like them lies, but for a probability below 10^-16."""
    return TAIL * np.std(runs, axis=0, ddof=1)


def every_run(value):
    """The same exact value in each run."""
    return Shaken(np.broadcast_to(value, (SAMPLES, *np.shape(value))))


def constant(value, axes):
    """A number of a formula as fp32 has it, for arrays of so many axes beside the runs."""
    return Shaken.rounded(np.full((SAMPLES,) + (1,) * axes, value))


def exact(value):
    return Shaken(np.asarray(value, dtype=np.float64))


def softmax(scores, mask=True):
    """Probabilities of the last axis where `mask` holds, and the logarithm of the sum of exponentials. What is taken
    from a row before exp cancels, whatever it is, but for the rounding of the difference."""
    s = np.where(mask, scores.value, -np.inf)
    most = s.max(axis=-1, keepdims=True)
    below = np.where(mask, s, most) - most
    exponents = Shaken.of(below, UNIT * np.abs(below)).map(np.exp).value * mask
    exponents = Shaken.approximated(exponents, EXP_ERROR * exponents, EXP_WAY)
    total = exponents.sum(-1, keepdims=True)
    p = exponents * (exact(1.0) / total)
    logarithm = Shaken.rounded(np.log(total.value[..., 0])) + Shaken(most[..., 0])
    return p, logarithm
