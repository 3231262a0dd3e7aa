"""How far a few fp32 operations may be from fp64: numbers that carry a bound on the rounding errors made on the way.

An fp32 operation rounds its exact result r to r(1 + d), |d| <= 2^-24, or errs by less than 2^-149 where r is subnormal.
`Rounded` holds an fp64 value x and a bound e: an fp32 computation of the same quantity, fused or not, lies within e
of x. Each operation adds what it does to the errors of its inputs, exactly, and its own rounding:
  a + b       ea + eb                         + 2^-24 (|a + b| + ea + eb)
  a * b       |a| eb + |b| ea + ea eb         + 2^-24 (|ab| + that)
  a / b       (ea + |a/b| eb) / (|b| - eb)    + 2^-24 (...)
  sqrt a      ea / (sqrt a + sqrt(a - ea))    + 2^-24 (...)
2^-24 is widened by 2^-20 of itself, which covers the roundings of fp64 with which all this is computed. A value stored
as bf16, of 8 significant bits, is rounded once more, by 2^-8.
"""

import numpy as np

UNIT = 2.0**-24 * (1 + 2.0**-20)
TINY = 2.0**-149
BF16_UNIT = 2.0**-8 * (1 + 2.0**-20)
BF16_TINY = 2.0**-134


def growth(n, unit=UNIT):
    """Relative error of n roundings, one after another; of a sum of n terms, in any order, relative to the sum of
    their magnitudes; of a product of vectors of n elements too, fused or not, with n + 1."""
    return n * unit / (1 - n * unit)


class Rounded:
    """A value, and how far fp32 may be from it."""

    def __init__(self, value, error=0.0):
        self.value = np.asarray(value, dtype=np.float64)
        self.error = np.broadcast_to(np.asarray(error, dtype=np.float64), self.value.shape)

    @staticmethod
    def of(value, error):
        """`value` with the inputs' error, and one rounding more."""
        return Rounded(value, error + UNIT * (np.abs(value) + error) + TINY)

    def __add__(self, other):
        return Rounded.of(self.value + other.value, self.error + other.error)

    def __sub__(self, other):
        return Rounded.of(self.value - other.value, self.error + other.error)

    def __mul__(self, other):
        a, b = self, other
        error = np.abs(a.value) * b.error + np.abs(b.value) * a.error + a.error * b.error
        return Rounded.of(a.value * b.value, error)

    def __truediv__(self, other):
        value = self.value / other.value
        room = np.abs(other.value) - other.error
        if np.any(room <= 0):
            raise ArithmeticError("a divisor may be zero: no bound")
        return Rounded.of(value, (self.error + np.abs(value) * other.error) / room)

    def sqrt(self):
        root = np.sqrt(self.value)
        below = np.sqrt(np.maximum(self.value - self.error, 0))
        both = root + below
        error = np.where(both > 0, self.error / np.where(both > 0, both, 1), np.sqrt(self.error))
        return Rounded.of(root, error)


def constant(value):
    """A number of a formula, as fp32 has it."""
    return Rounded(value, UNIT * np.abs(value))


def exact(value):
    return Rounded(value)
