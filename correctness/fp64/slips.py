"""How small a slip of a number in the model's formulas is seen: each is measured from all gradients of a step.

[Note: how a number of the formulas is measured]
A number c that is off by e moves every gradient element by e D, with D the derivative of that element by c. In one
element that is lost in what rounding may do. But all of them move by the same e, and roundings have no such thing in
common; so elements are added. With weights w, deviations d of a dump from the exact gradients give

  e = sum w d / sum w D

and what rounding did adds to it a fixed linear combination of its errors. How large that may be is seen in the same
runs as the bound of an element (shaken.py): of each run this combination, of these the standard deviation, of that
TAIL. Storing a gradient as bf16 errs in element i by at most some a_i, with no preferred sign; by Hoeffding's
inequality sum w_i (that) exceeds STORED_TAIL sqrt(sum (w_i a_i)^2) with a probability below 2 exp(-STORED_TAIL^2 / 2),
which is below 10^-16. So a step whose numbers are right is refuted with a probability below 2 10^-16 each, and one that
is off by twice its bound goes unseen as rarely.

Weights are w = D / (g^2 + FLOOR mean g^2), g the exact gradient, mean over its tensor: errors of an element grow with
it, and with what it is summed from. They depend on no rounding, so that no choice of them makes a bound wrong, only
wide.
"""

import dataclasses

import numpy as np

from fp64.bounds import BF16_UNIT
from fp64.formulas import Gpt
from fp64.shaken import SAMPLES, spread

# Those that gradients are a smooth function of.
NUMBERS = ("gelu_root", "gelu_cubic", "norm_epsilon", "score_power")

STORED_TAIL = 8.7
FLOOR = BF16_UNIT
STEP = 2.0**-20  # of a number, for its derivative: far above fp64's rounding, far below where it bends


@dataclasses.dataclass
class Combination:
    """Of deviations, of their derivative, and of errors: sums over micro-batches, tensors and elements."""

    off: float = 0.0
    along: float = 0.0
    stored: float = 0.0
    runs: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(SAMPLES))

    def add(self, slope, gradient, got, errors):
        size = gradient**2 + FLOOR * np.mean(gradient**2)
        weights = np.divide(slope, size, out=np.zeros_like(slope), where=size > 0)
        self.off += np.sum(weights * (got - gradient))
        self.along += np.sum(weights * slope)
        self.stored += np.sum((weights * errors.stored) ** 2)
        self.runs += np.tensordot(errors.runs, weights, axes=weights.ndim)

    def measured(self):
        """How much the number seems off, and how much of that may be rounding."""
        return self.off / self.along, (spread(self.runs) + STORED_TAIL * np.sqrt(self.stored)) / self.along


class Slips:
    """Of one step's micro-batches."""

    def __init__(self, config, positions, formulas):
        self.values = {number: getattr(formulas, number) for number in NUMBERS}
        self.moved = {
            number: Gpt(config, positions, dataclasses.replace(formulas, **{number: value * (1 + STEP)}))
            for number, value in self.values.items()
        }
        self.combinations = {number: Combination() for number in NUMBERS}

    def add(self, micro_batch, gradients, got, errors):
        """`micro_batch` is weights, inputs and targets; `gradients` are exact; `errors` are theirs (shaken_gpt.py),
        made with another seed for each micro-batch."""
        for number, value in self.values.items():
            _, moved = self.moved[number].loss_and_gradients(*micro_batch)
            for name, values in got.items():
                slope = (moved[name] - gradients[name]) / (value * STEP)
                self.combinations[number].add(slope, gradients[name], values, errors[name])

    def measured(self):
        """By number: its value, how much it seems off, and its bound; the worst first, without those that no
        gradient depends on."""
        dependent = {number: each for number, each in self.combinations.items() if each.along > 0}
        found = {number: (self.values[number], *each.measured()) for number, each in dependent.items()}
        return dict(sorted(found.items(), key=lambda item: -abs(item[1][1]) / item[1][2]))
