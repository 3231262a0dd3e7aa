#!/usr/bin/env python3
"""Recomputes a training run from its dump alone, in fp64, and says whether the run was right.

Reads what `zeroproof verify --dump DIR` wrote (results/dump.md): of every stage and step the loss and gradients of
every micro-batch, their average, its norm, clipping, optimizer and rounding of parameters. Gradients come from
automatic differentiation of the loss. Every tolerance is derived: fp64/bounds.py, fp64/shaken.py, fp64/slips.py.
Needs numpy and autograd.
Exit code: 0 all agree, 7 something does not (one line says what), 6 no dump that can be recomputed.

usage: oracle.py DIR [--wrong FORMULA]
"""

import argparse
import collections
import math
import pathlib
import sys

import numpy as np

from fp64.bounds import BF16_UNIT, TINY, UNIT, constant, exact, growth
from fp64.formulas import WRONG, Formulas, Gpt, wrong
from fp64.manifest import TYPES, Manifest, Unreadable
from fp64.shaken_gpt import ShakenGpt
from fp64.slips import Slips

FP64_UNIT = 2.0**-53
NORM_BLOCK = 64  # squares are added in fp64 block by block, and blocks exactly but for 2^-101 each


class Disagreement(Exception):
    """Got and expected differ by more than rounding explains."""


class Dump:
    """Arrays by what they are."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        manifest = Manifest(folder)
        manifest.require_gpt()
        self.config, self.positions, self.stages = manifest.config, manifest.positions, manifest.stages
        self.tensors = {t["name"]: t for t in manifest.tensors}
        self.trained = [t["name"] for t in manifest.tensors if not t["frozen"]]
        self.arrays = collections.defaultdict(list)
        for a in manifest.arrays:
            self.arrays[a["stage"], a["step"], a["micro_batch"], a["kind"], a["tensor"]].append(a)

    def has(self, stage):
        return any(k[0] == stage for k in self.arrays)

    def steps(self, stage):
        return sorted({k[1] for k in self.arrays if k[0] == stage and k[1] is not None})

    def read(self, stage, step, kind, tensor=None, micro_batch=None, shape=()):
        """The whole array, put together from the parts that ranks wrote; bf16 widened."""
        what = f"{stage}, step {step}, micro-batch {micro_batch}, {kind} of {tensor}"
        parts = self.arrays.get((stage, step, micro_batch, kind, tensor), [])
        shape = self.tensors[tensor]["shape"] if tensor else shape
        values = []
        for part in sorted(parts, key=lambda a: a["first"] or 0):
            if (part["first"] or 0) != sum(map(len, values)):
                raise Unreadable(f"{what}: {part['file']} begins at {part['first']}: parts overlap or leave a gap")
            values.append(self._load(part).reshape(-1))
        if not values or sum(map(len, values)) != math.prod(shape):
            raise Unreadable(f"{what}: the manifest names {sum(map(len, values))} of {math.prod(shape)} elements")
        return np.concatenate(values).reshape(shape)

    def _load(self, part):
        try:
            array = np.load(self.folder / part["file"])
        except (OSError, ValueError, EOFError) as error:
            raise Unreadable(f"{part['file']}: cannot be read ({error})") from error
        if list(array.shape) != part["shape"]:
            raise Unreadable(f"{part['file']}: has shape {list(array.shape)}, the manifest says {part['shape']}")
        if array.dtype != TYPES[part["type"]]:
            raise Unreadable(f"{part['file']}: holds {array.dtype.str}, the manifest says {part['type']}")
        if part["type"] == "bf16":
            array = (array.astype(np.uint32) << 16).view(np.float32)
        return array if part["type"] == "int32" else array.astype(np.float64)


class Oracle:
    def __init__(self, dump, formulas):
        self.dump, self.formulas, self.config = dump, formulas, dump.config
        self.gpt = Gpt(self.config, dump.positions, formulas)
        self.shaken = ShakenGpt(self.config, formulas)
        self.batches = self.config["micro_batches"]
        self.mastered = self.config["recipe"] != "fp32"
        self.exact_kind = "master" if self.mastered else "param"
        self.closest = collections.Counter()  # by what was compared: largest share of its bound that was used
        self.finest = {}  # by number of the formulas: the smallest slip that a step would have shown, relative
        self.numbers = 0

    def compare(self, where, what, got, expected, bound):
        """Every element lies within its bound. NaN lies nowhere."""
        got, expected, bound = np.broadcast_arrays(got, expected, bound)
        off = np.abs(got - expected)
        bad = ~(off <= bound)
        share = np.where(bound > 0, off / np.where(bound > 0, bound, 1), np.where(off > 0, np.inf, 0))
        share = np.where(np.isnan(share), np.inf, share)
        self.numbers += got.size
        kind = what.split(" of ")[0]
        self.closest[kind] = max(self.closest[kind], float(share.max()))
        if not bad.any():
            return
        at = int(np.argmax(np.where(bad, share, -1)))
        raise Disagreement(
            f"{where}, {what}, element {at}: got {got.flat[at]:.9g}, expected {expected.flat[at]:.9g}, "
            f"bound {bound.flat[at]:.3g}; {int(bad.sum())} of {bad.size} elements disagree"
        )

    def check(self):
        """All that is there is compared before it is said what is not."""
        lacking = []
        for stage in self.dump.stages:
            if not self.dump.has(stage):
                lacking.append(f"the manifest names no array of stage {stage}: the run ended before that stage did")
                continue
            self._check_start(stage)
            steps = self.dump.steps(stage)
            for step in steps:
                where = f"{stage}, step {step}"
                before = step - 1 if step > 0 else None
                self._check_micro_batches(stage, step, before, where)
                averages = self._check_averages(stage, step, where)
                norm = self._check_norm(stage, step, where, averages)
                self._check_update(stage, step, before, where, averages, norm)
            if steps != list(range(self.config["steps"])):
                lacking.append(f"{stage}: the manifest names steps {steps} of {self.config['steps']} from 0")
        if lacking:
            raise Unreadable("; ".join(lacking))
        return self

    def _check_start(self, stage):
        where = f"{stage}, before training"
        for name in self.dump.trained:
            for kind in ["m"] + ["v"] * (self.config["optimizer"] == "adamw"):
                self.compare(where, f"{kind} of {name}", self.dump.read(stage, None, kind, name), 0.0, 0.0)
        self._check_parameters(stage, None, None, where)

    def _check_micro_batches(self, stage, step, before, where):
        weights = {name: self.dump.read(stage, before, "param", name) for name in self.dump.tensors}
        losses, slips = [], Slips(self.config, self.dump.positions, self.formulas)
        for number in range(self.batches):
            here = f"{where}, micro-batch {number}"
            shape = (self.config["micro_batch_size"], self.config["sequence"])
            inputs = self.dump.read(stage, step, "inputs", micro_batch=number, shape=shape)
            targets = self.dump.read(stage, step, "targets", micro_batch=number, shape=shape)
            for kind, tokens in (("inputs", inputs), ("targets", targets)):
                known = np.clip(tokens, 0, self.config["vocabulary"] - 1)
                self.compare(here, f"{kind} of the vocabulary", tokens, known, 0.0)
            self.compare(here, "targets of inputs", targets[:, :-1], inputs[:, 1:], 0.0)
            loss, gradients = self.gpt.loss_and_gradients(weights, inputs, targets)
            loss_errors, errors = self.shaken.errors(weights, inputs, targets, seed=number)
            got = self.dump.read(stage, step, "loss", micro_batch=number)
            self.compare(here, "loss", got, loss, loss_errors.bound())
            losses.append(float(got))
            got = {name: self.dump.read(stage, step, "gradient", name, number) for name in self.dump.trained}
            for name, values in got.items():
                self.compare(here, f"gradient of {name}", values, gradients[name], errors[name].bound())
            slips.add((weights, inputs, targets), gradients, got, errors)
        for number, (value, off, bound) in slips.measured().items():
            self.compare(where, f"{number} of all gradients", value + off, value, bound)
            self.finest[number] = min(self.finest.get(number, np.inf), bound / value)
        mean = math.fsum(losses) / self.batches
        bound = (self.batches + 1) * FP64_UNIT * math.fsum(map(abs, losses)) / self.batches
        self.compare(where, "mean loss", self.dump.read(stage, step, "mean-loss"), mean, bound)

    def _check_averages(self, stage, step, where):
        """Of the dumped gradients of micro-batches, in any order of addition."""
        divisor = self.config[self.formulas.divides_gradients_by]
        averages = {}
        for name in self.dump.trained:
            each = np.stack([self.dump.read(stage, step, "gradient", name, i) for i in range(self.batches)])
            most = np.abs(each).sum(0) / divisor
            bound = self._average_growth() * most + self.batches * TINY
            if self.config["wire"] == "i64":
                # Each gradient to a multiple of 2^-44, the exact sum to fp32, the quotient to fp32.
                bound = self.batches * 2.0**-45 / divisor + growth(3) * (most + self.batches * 2.0**-45)
            averages[name] = self.dump.read(stage, step, "averaged", name)
            self.compare(where, f"average of {name}", averages[name], each.sum(0) / divisor, bound)
        return averages

    def _average_growth(self):
        """M - 1 additions and a division, each rounded to fp32, and where gradients are bf16 to bf16 after it."""
        unit = UNIT + BF16_UNIT * (1 + UNIT) if self.config["recipe"] == "bf16" else UNIT
        return growth(self.batches, unit)

    def _check_norm(self, stage, step, where, averages):
        squares = math.fsum(float(x) ** 2 for values in averages.values() for x in values.flat)
        count = sum(values.size for values in averages.values())
        error = (NORM_BLOCK + 4) * FP64_UNIT * squares + count * 2.0**-101
        norm = squares if self.formulas.squares_norm else math.sqrt(squares)
        bound = error / max(math.sqrt(squares), 2.0**-100) + 2 * FP64_UNIT * norm
        got = self.dump.read(stage, step, "norm")
        self.compare(where, "norm", got, norm, bound)
        return float(got)

    def _check_update(self, stage, step, before, where, averages, norm):
        clip = self.config["clip"]
        factor = exact(1.0)
        if self.formulas.clips and 0 < clip < norm:
            factor = constant(clip / norm)
        update = self._adamw if self.config["optimizer"] == "adamw" else self._sgd
        for name in self.dump.trained:
            kinds = [self.exact_kind, "m"] + ["v"] * (self.config["optimizer"] == "adamw")
            old = {kind: exact(self.dump.read(stage, before, kind, name)) for kind in kinds}
            matrix = len(self.dump.tensors[name]["shape"]) > 1
            decay = self.config["weight_decay"] if matrix or self.formulas.decays_vectors else 0.0
            new = update(old, factor * exact(averages[name]), decay, step + 1)
            for kind in kinds:
                got = self.dump.read(stage, step, kind, name)
                self.compare(where, f"{kind} of {name}", got, new[kind].value, new[kind].error)
        self._check_parameters(stage, step, before, where)

    def _adamw(self, old, gradient, decay, t):
        beta1, beta2 = self.config["beta1"], self.config["beta2"]
        weight = old[self.exact_kind]
        if self.formulas.decay_in_gradient:
            gradient, decay = gradient + exact(decay) * weight, 0.0
        m = exact(beta1 if self.formulas.remembers else 0.0) * old["m"] + constant(1 - beta1) * gradient
        v = exact(beta2) * old["v"] + constant(1 - beta2) * (gradient * gradient)
        corrections = (constant(1 - beta1**t), constant(1 - beta2**t))
        if not self.formulas.corrects_bias:
            corrections = (exact(1.0), exact(1.0))
        direction = (m / corrections[0]) / ((v / corrections[1]).sqrt() + exact(self.config["epsilon"]))
        step = exact(self.config["lr"]) * (exact(decay) * weight + direction)
        return {self.exact_kind: weight - step, "m": m, "v": v}

    def _sgd(self, old, gradient, decay, _):
        weight = old[self.exact_kind]
        gradient = gradient + exact(decay) * weight
        m = exact(self.config["momentum"] if self.formulas.remembers else 0.0) * old["m"] + gradient
        return {self.exact_kind: weight - exact(self.config["lr"]) * m, "m": m}

    def _check_parameters(self, stage, step, before, where):
        """Parameters are their masters, rounded; frozen ones stay."""
        for name, tensor in self.dump.tensors.items():
            if tensor["frozen"]:
                if step is not None:
                    stay = self.dump.read(stage, before, "param", name)
                    self.compare(where, f"frozen of {name}", self.dump.read(stage, step, "param", name), stay, 0.0)
            elif self.mastered:
                rounded = self._as_bf16(self.dump.read(stage, step, "master", name))
                self.compare(where, f"param of {name}", self.dump.read(stage, step, "param", name), rounded, 0.0)

    def _as_bf16(self, x):
        """Eight significant bits, to the nearest, ties to even; below 2^-126 a fixed unit."""
        exponent = np.maximum(np.frexp(x)[1], -125) - 8
        steps = np.ldexp(x, -exponent)
        return np.ldexp(np.rint(steps) if self.formulas.rounds_to_nearest else np.trunc(steps), exponent)


def check(folder, formulas=None):
    """Throws Disagreement or Unreadable; returns the oracle with what it compared."""
    return Oracle(Dump(folder), formulas or Formulas()).check()


def main():
    parser = argparse.ArgumentParser(description="Recomputes a dump in fp64.")
    parser.add_argument("folder", metavar="DIR", help="what verify --dump wrote")
    parser.add_argument("--wrong", choices=sorted(WRONG), help="make this mistake, and be seen to disagree")
    args = parser.parse_args()
    try:
        oracle = check(args.folder, wrong(args.wrong) if args.wrong else None)
    except Unreadable as error:
        print(f"oracle: {error}", file=sys.stderr)
        return 6
    except Disagreement as error:
        print(f"oracle: {error}")
        return 7
    shares = ", ".join(f"{kind} {share:.2g}" for kind, share in oracle.closest.items() if share > 0)
    stages = ", ".join(oracle.dump.stages)
    finest = ", ".join(f"{number} {100 * bound:.2g} %" for number, bound in oracle.finest.items())
    print(
        f"oracle: {oracle.numbers} numbers of {stages} agree; largest share of a bound: {shares}; "
        f"smallest slips seen: {finest}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
