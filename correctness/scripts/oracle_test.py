"""The oracle agrees with every recipe, optimizer and way to clip, in every stage; it disagrees with every wrong
formula, and names a number that was changed.

Needs numpy and autograd (oracle_env.sh). Usage: oracle_test.py EXECUTABLE
"""

import dataclasses
import filecmp
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "correctness"))
EXECUTABLE = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else str(ROOT / "build" / "zeroproof")

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices are small

import numpy as np  # noqa: E402

import oracle  # noqa: E402
from fp64.formulas import WRONG, Formulas, Gpt, wrong  # noqa: E402
from fp64.shaken import SAMPLES, TAIL  # noqa: E402
from fp64.shaken_gpt import ShakenGpt  # noqa: E402
from fp64.slips import NUMBERS, Slips  # noqa: E402

# Odd numbers everywhere: slices end within tensors, and tensors within slices.
SMALL = "layers=2,width=10,heads=2,positions=7,vocabulary=23"
# Wide enough that GELU sees arguments at which the smaller of its terms counts, from the first step on.
WIDE = "layers=2,width=30,heads=3,positions=7,vocabulary=23"
# Large steps, so that weights, moments and decay are soon of a size at which every term of a formula counts.
LIVELY = ("--lr", "0.02", "--weight-decay", "0.3", "--micro-batch-size", "2", "--micro-batches", "6")
RECIPES = ("bf16-fp32grad", "bf16", "fp32")
OPTIMIZERS = ("adamw", "sgd")
FREE = ("model", "name", "file", "stage", "kind", "tensor")  # fields of a manifest that may be any text
STAGES = ("ddp", "zero1", "zero1-allreduce", "zero2", "zero3", "zero3-keep")

# What a wrong formula is seen in first, in the order of a step's checks.
MODEL = r"micro-batch \d+, (loss|gradient of)|step \d+, \w+ of all gradients"
UPDATE = r"step \d+, (master|m) of embeddings\.token\.weight"
SEEN_IN = {
    "gelu": MODEL,
    "gelu-digit": MODEL,
    "gelu-root": MODEL,
    "epsilon": MODEL,
    "scale": MODEL,
    "mask": MODEL,
    "average": r"step 0, average of embeddings\.token\.weight",
    "norm": r"step 0, norm",
    "clip": UPDATE,
    "decay": r"step 0, master of block\.0\.norm1\.weight",
    "coupled": UPDATE,
    "correction": UPDATE,
    "momentum": UPDATE,
    "rounding": r"before training, param of ",
    "tied": r"micro-batch 0, gradient of embeddings\.token\.weight",
}


def dump(folder, *options, model=SMALL, ranks=2, mpi=False, steps=2):
    """A finished run of verify."""
    words = [EXECUTABLE, "verify", "--model", model, "--steps", str(steps), "--dump", str(folder), *options]
    words = ["mpirun", "-n", str(ranks), *words] if mpi else [*words, "--ranks", str(ranks)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)


class OfRuns(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def proved(self, name, *options, **how):
        folder = self.folder / name
        done = dump(folder, *options, **how)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return folder

    def disagreement(self, folder, formulas=None):
        with self.assertRaises(oracle.Disagreement) as caught:
            oracle.check(folder, formulas)
        return str(caught.exception)

    def test_every_recipe_optimizer_clipping_and_table_agrees(self):
        stages = itertools.cycle(STAGES)
        # Half of all, in which every two choices meet.
        cases = itertools.product(enumerate(RECIPES), enumerate(OPTIMIZERS), enumerate(("0", "0.5")))
        for number, ((i, recipe), (j, optimizer), (k, clip)) in enumerate(cases):
            tied = ("--tied",) if (i + j + k) % 2 else ()
            options = ("--recipe", recipe, "--optimizer", optimizer, "--clip", clip, *tied)
            with self.subTest(options=options):
                folder = self.proved(f"{number}", *options, *LIVELY, "--stages", next(stages))
                found = oracle.check(folder)
                self.assertLessEqual(set(("loss", "gradient", "average", "norm", "m")), set(found.closest))
                self.assertLess(max(found.closest.values()), 1 + 1e-12)

    def test_every_stage_agrees_on_tiny_by_the_numbers_that_it_holds(self):
        stages = itertools.cycle(STAGES)
        for number, (recipe, (tied, clip)) in enumerate(
            itertools.product(RECIPES, (((), "0"), (("--tied",), "0.3")))
        ):
            with self.subTest(recipe=recipe, tied=tied, clip=clip):
                options = ("--recipe", recipe, *tied, "--clip", clip, "--micro-batches", "4", "--stages", next(stages))
                folder = self.proved(f"{number}", *options, model="tiny", ranks=4, steps=1)
                finest = oracle.check(folder).finest["gelu_cubic"]
                self.assertLess(finest, 0.05 if recipe == "bf16" else 0.02)
                if not tied:
                    slipped = dataclasses.replace(Formulas(), gelu_cubic=Formulas().gelu_cubic * (1 + 2 * finest))
                    # No element shows it.
                    self.assertRegex(self.disagreement(folder, slipped), "step 0, gelu_cubic of all gradients")

    def test_gradients_in_fixed_point_and_other_orders_agree(self):
        for number, (stage, *options) in enumerate(
            (
                ("ddp", "--wire", "i64"),
                ("zero3", "--wire", "i64", "--recipe", "fp32", "--tied", "--algorithm", "ring"),
                ("zero2", "--algorithm", "ring", "--accumulate", "sequential"),
                ("zero1", "--recipe", "bf16", "--algorithm", "ring"),
            )
        ):
            with self.subTest(stage=stage, options=options):
                oracle.check(self.proved(f"{number}", *options, *LIVELY, "--stages", stage, ranks=3))

    def test_frozen_units_several_blocks_and_three_ranks_agree(self):
        options = ("--freeze", "embeddings", "--unit-blocks", "2", "--stages", "zero3,ddp")
        oracle.check(self.proved("frozen", *options, *LIVELY, ranks=3))

    def test_processes_write_the_numbers_of_threads(self):
        threads = self.proved("threads", "--stages", "zero3")
        processes = self.proved("processes", "--stages", "zero3", mpi=True)
        files = [p.relative_to(threads) for p in threads.rglob("*.npy")]
        self.assertEqual(set(files), {p.relative_to(processes) for p in processes.rglob("*.npy")})
        _, different, missing = filecmp.cmpfiles(threads, processes, map(str, files), shallow=False)
        self.assertEqual((different, missing), ([], []))
        oracle.check(processes)

    def test_every_wrong_formula_disagrees_where_it_is_seen(self):
        self.assertEqual(set(SEEN_IN), set(WRONG))
        tried = set()
        for optimizer, tied, recipe in (("adamw", (), "bf16"), ("sgd", ("--tied",), "bf16-fp32grad")):
            options = ("--optimizer", optimizer, "--recipe", recipe, "--clip", "0.01", *tied)
            folder = self.proved(optimizer, *options, *LIVELY, "--stages", "zero2", model=WIDE, steps=3)
            config = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["config"]
            for name, (_, shows) in WRONG.items():
                if not shows(config):
                    continue
                with self.subTest(name=name, optimizer=optimizer):
                    self.assertRegex(self.disagreement(folder, wrong(name)), SEEN_IN[name])
                    tried.add(name)
        self.assertEqual(tried, set(WRONG))

    def test_a_number_that_was_changed_is_named(self):
        folder = self.proved("changed", "--stages", "zero2", "--micro-batches", "2")
        arrays = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["arrays"]
        kinds = ("gradient", "averaged", "master", "param", "m", "v", "loss", "mean-loss", "norm", "inputs", "targets")
        for kind in kinds:
            array = next(a for a in arrays if a["kind"] == kind and a["step"] == 1 and max(a["shape"], default=2) > 1)
            with self.subTest(file=array["file"]):
                path = folder / array["file"]
                before = path.read_bytes()
                values = np.load(path)
                last = values.reshape(-1)[-1:]
                last += {"param": 1, "inputs": 23, "targets": 23}.get(kind, last / 64 + 1e-3)
                np.save(path, values)
                line = self.disagreement(folder)
                self.assertIn("zero2, step 1", line)
                if array["tensor"]:
                    self.assertIn(array["tensor"], line)
                    element = (array["first"] or 0) + values.size - 1
                    self.assertIn(f"element {element}:", line)
                path.write_bytes(before)
        oracle.check(folder)

    def test_a_fault_of_the_program_is_found_by_the_oracle_too(self):
        folder = self.folder / "fault"
        done = dump(folder, "--stages", "zero2", "--inject", "double-average:step=1")
        self.assertEqual(done.returncode, 7, done.stdout + done.stderr)
        self.assertRegex(self.disagreement(folder), r"^zero2, step 1, average of embeddings\.token\.weight, element")

    def test_what_is_missing_is_no_agreement(self):
        folder = self.proved("missing", "--stages", "ddp", steps=1)
        (folder / "ddp/step.0/m.head.weight.rank1.npy").unlink()
        with self.assertRaisesRegex(oracle.Unreadable, "head.weight.rank1.npy: cannot be read"):
            oracle.check(folder)
        with self.assertRaisesRegex(oracle.Unreadable, "has no manifest.json"):
            oracle.check(self.folder)

    def test_a_manifest_that_leaves_something_out_is_no_agreement(self):
        folder = self.proved("partial", "--stages", "ddp", steps=2)
        path = folder / "manifest.json"
        whole = json.loads(path.read_text(encoding="utf-8"))
        without_last_step = [array for array in whole["arrays"] if array["step"] != 1]
        for changed, says in (
            ({**whole, "arrays": without_last_step}, r"names steps \[0\] of 2"),
            ({**whole, "arrays": []}, "names no array of stage ddp"),
            ({key: whole[key] for key in whole if key != "positions"}, "lacks 'positions'"),
        ):
            path.write_text(json.dumps(changed), encoding="utf-8")
            with self.assertRaisesRegex(oracle.Unreadable, says):
                oracle.check(folder)

    def unreadable(self, folder, whole, changed):
        """What the oracle says of a dump whose manifest was changed."""
        (folder / "manifest.json").write_text(json.dumps(changed), encoding="utf-8")
        try:
            with self.assertRaises(oracle.Unreadable) as caught:
                oracle.check(folder)
        finally:
            (folder / "manifest.json").write_text(json.dumps(whole), encoding="utf-8")
        self.assertNotIn("\n", str(caught.exception))
        return str(caught.exception)

    def test_a_stage_without_arrays_is_no_agreement(self):
        folder = self.proved("stages", "--stages", "ddp,zero2", "--micro-batches", "2", steps=1)
        whole = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        for stage in ("ddp", "zero2"):
            with self.subTest(without=stage):
                arrays = [array for array in whole["arrays"] if array["stage"] != stage]
                line = self.unreadable(folder, whole, {**whole, "arrays": arrays})
                self.assertIn(f"names no array of stage {stage}", line)
        line = self.unreadable(folder, whole, {**whole, "stages": ["ddp"]})
        self.assertIn("names arrays of stage zero2, which was not asked for", line)
        self.assertIn("names no stage", self.unreadable(folder, whole, {**whole, "stages": []}))
        oracle.check(folder)

    def test_a_run_that_was_killed_is_no_agreement(self):
        folder = self.folder / "killed"
        words = [EXECUTABLE, "verify", "--model", SMALL, "--ranks", "2", "--steps", "2", "--micro-batches", "2",
                 "--stages", ",".join(STAGES), "--dump", str(folder)]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
            # Rank 0 is in the second stage: it has written the manifest of the first.
            while not (folder / STAGES[1] / "step.0/norm.npy").exists() and run.poll() is None:
                pass
            run.kill()
        self.assertLess(run.returncode, 0, "it was done before it was killed")
        with self.assertRaisesRegex(oracle.Unreadable, "names no array of stage zero"):
            oracle.check(folder)

    def test_a_refuted_stage_is_no_agreement(self):
        options = ("--stages", "zero2,ddp", "--micro-batches", "2", "--inject", "extra-message:stage=zero2")
        done = dump(self.folder / "refuted", *options)
        self.assertEqual(done.returncode, 8, done.stdout + done.stderr)
        with self.assertRaisesRegex(oracle.Unreadable, r"^zero2: the manifest names steps \[0\] of 2"):
            oracle.check(self.folder / "refuted")
        # A wrong number in what is there comes before what is not.
        done = dump(self.folder / "wrong", *options, "--inject", "double-average:stage=ddp,step=1")
        self.assertEqual(done.returncode, 7, done.stdout + done.stderr)
        self.assertRegex(self.disagreement(self.folder / "wrong"), "^ddp, step 1, average of ")

    def test_a_field_that_is_missing_or_of_another_type_is_named(self):
        for optimizer, numbers in (("adamw", ("beta1", "beta2", "epsilon")), ("sgd", ("momentum",))):
            options = ("--stages", "ddp", "--optimizer", optimizer, "--micro-batches", "2")
            folder = self.proved(optimizer, *options, steps=1)
            whole = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
            names = {
                "": ("schema", "config", "positions", "stages", "tensors", "arrays"),
                "config": ("model", "layers", "width", "heads", "vocabulary", "tied", "ranks", "steps", "micro_batches",
                           "micro_batch_size", "sequence", "recipe", "wire", "optimizer", "lr", "weight_decay", "clip",
                           *numbers),
                "tensors": ("name", "shape", "frozen"),
                "arrays": ("file", "stage", "step", "micro_batch", "kind", "tensor", "first", "shape", "type"),
            }
            for part, fields in names.items():
                for field, wrongly in itertools.product(fields, (None, {}, [[]], "?", -1, float("nan"))):
                    changed = json.loads(json.dumps(whole))
                    at = changed[part] if part else changed
                    at = at[0] if isinstance(at, list) else at
                    if wrongly is None:
                        del at[field]
                    elif field in FREE and wrongly == "?":
                        continue
                    else:
                        at[field] = wrongly
                    with self.subTest(part=part, field=field, wrongly=wrongly):
                        line = self.unreadable(folder, whole, changed)
                        self.assertRegex(line, rf"manifest\.json: .*\b{field}\b")
            for changed in ([], "?", {**whole, "tensors": whole["tensors"][1:]}, {**whole, "positions": 6},
                            {**whole, "config": {**whole["config"], "layers": 3}}):
                self.unreadable(folder, whole, changed)
            oracle.check(folder)

    def test_the_command_line_ends_with_its_codes(self):
        folder = self.proved("codes", "--stages", "ddp", steps=1)
        for words, code, says in (([], 0, "agree"), (["--wrong", "average"], 7, "average of"), (None, 6, "manifest")):
            command = [sys.executable, str(ROOT / "correctness/oracle.py"), str(folder), *(words or [])]
            done = subprocess.run(command if words is not None else [*command[:2], str(self.folder)],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            self.assertEqual((done.stdout + done.stderr).count("\n"), 1)
            self.assertIn(says, done.stdout + done.stderr)


def stored(x, recipe):
    """As gradients are stored: eight significant bits of bf16, or fp32."""
    if recipe != "bf16":
        return x.astype(np.float32).astype(np.float64)
    exponent = np.frexp(x)[1] - 8
    return np.ldexp(np.rint(np.ldexp(x, -exponent)), exponent)


class OfBounds(unittest.TestCase):
    config = {"layers": 2, "width": 12, "heads": 3, "tied": True, "micro_batch_size": 2, "sequence": 5,
              "recipe": "fp32"}

    def weights(self, scale):
        random = np.random.default_rng(7)
        w, shapes = 12, {"embeddings.token.weight": (11, 12), "embeddings.position.weight": (6, 12)}
        for layer in range(2):
            for name, out, into in (("qkv", 3 * w, w), ("out", w, w), ("up", 4 * w, w), ("down", w, 4 * w)):
                shapes[f"block.{layer}.{name}.weight"], shapes[f"block.{layer}.{name}.bias"] = (out, into), (out,)
            for name in ("norm1", "norm2"):
                shapes[f"block.{layer}.{name}.weight"] = shapes[f"block.{layer}.{name}.bias"] = (w,)
        shapes["head.norm.weight"] = shapes["head.norm.bias"] = (w,)
        return {name: scale * random.standard_normal(shape) for name, shape in shapes.items()}

    def micro_batch(self):
        inputs = np.array([[3, 10, 3, 0, 7], [7, 1, 2, 10, 3]])
        targets = np.array([[10, 3, 0, 7, 2], [1, 2, 10, 3, 5]])
        return self.weights(0.3), inputs, targets

    def test_gradients_by_hand_and_by_differentiation_are_one(self):
        weights, inputs, targets = self.micro_batch()
        loss, gradients = Gpt(self.config, 6, Formulas()).loss_and_gradients(weights, inputs, targets)
        gpt = ShakenGpt(self.config, Formulas())
        loss_errors, errors = gpt.errors(weights, inputs, targets)
        loss_bound = loss_errors.bound()
        bounds = {name: each.bound() for name, each in errors.items()}
        shaken_loss, shaken = gpt.loss_and_gradients(weights, inputs, targets)
        self.assertEqual(set(gradients), set(shaken))
        self.assertLess(loss_bound, 1e-4 * loss)
        self.assertLess(np.abs(shaken_loss.value - loss).max(), loss_bound)
        for name, gradient in gradients.items():
            # The runs lie around the derivative that was found without their formulas, …
            deviation = shaken[name].value.mean(axis=0) - gradient
            self.assertTrue(np.all(np.abs(deviation) < bounds[name] / 10), name)
            # … and the bounds mean something: a wrong digit in the third place lies outside.
            self.assertLess(bounds[name].max(), 2e-3 * np.abs(gradient).max(), name)

    def measured(self, config, micro_batch, gradients, got, errors):
        slips = Slips(config, 6, Formulas())
        slips.add(micro_batch, gradients, got, errors)
        return slips.measured()

    def test_a_slip_of_any_number_is_measured(self):
        where = self.micro_batch()
        gradients = Gpt(self.config, 6, Formulas()).loss_and_gradients(*where)[1]
        errors = ShakenGpt(self.config, Formulas()).errors(*where)[1]
        for number in NUMBERS:
            value, off, bound = self.measured(self.config, where, gradients, gradients, errors)[number]
            self.assertEqual(off, 0)
            slipped = dataclasses.replace(Formulas(), **{number: value + 2 * bound})
            got = Gpt(self.config, 6, slipped).loss_and_gradients(*where)[1]
            off = self.measured(self.config, where, gradients, got, errors)[number][1]
            with self.subTest(number=number, bound=bound / value):
                self.assertAlmostEqual(off / bound, 2, delta=0.02)

    def test_what_rounding_does_to_a_measured_number_is_what_its_bound_says(self):
        for recipe in RECIPES[1:]:
            config = {**self.config, "recipe": recipe}
            where = self.micro_batch()
            gradients = Gpt(config, 6, Formulas()).loss_and_gradients(*where)[1]
            gpt = ShakenGpt(config, Formulas())
            errors = gpt.errors(*where)[1]
            others = gpt.loss_and_gradients(*where, seed=1)[1]
            shares = {number: [] for number in NUMBERS}
            for run in range(SAMPLES):
                got = {name: stored(other.value[run], recipe) for name, other in others.items()}
                for number, (_, off, bound) in self.measured(config, where, gradients, got, errors).items():
                    shares[number].append(off / bound)
            for number, found in shares.items():
                with self.subTest(recipe=recipe, number=number):
                    deviation = np.sqrt(np.mean(np.square(found)))
                    self.assertLess(deviation, 2 / TAIL)
                    self.assertLess(np.abs(found).max(), 6 / TAIL)
                    if recipe == "fp32":
                        self.assertGreater(deviation, 0.5 / TAIL)


if __name__ == "__main__":
    unittest.main()
