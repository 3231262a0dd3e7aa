"""The manifest of a dump (results/dump.md): read whole, or refused by the first field that is not as it must be."""

import json
import math
import pathlib

SCHEMA = "zeroproof/dump/1"
TYPES = {"fp32": "<f4", "fp64": "<f8", "int32": "<i4", "bf16": "<u2"}  # as NumPy names what the file holds


class Unreadable(Exception):
    """No dump, or not all of it."""


def _text(value):
    return isinstance(value, str)


def _flag(value):
    return isinstance(value, bool)


def _count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _positive(value):
    return _count(value) and value > 0


def _number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf


def _shape(value):
    return isinstance(value, list) and all(map(_count, value))


def _or_null(is_kind):
    return lambda value: value is None or is_kind(value)


def _one_of(*words):
    return lambda value: _text(value) and value in words


CONFIG = {
    "model": _text, "layers": _count, "width": _count, "heads": _count, "vocabulary": _count, "tied": _flag,
    "ranks": _positive, "steps": _positive, "micro_batches": _positive, "micro_batch_size": _positive,
    "sequence": _count, "recipe": _one_of("bf16-fp32grad", "bf16", "fp32"), "wire": _one_of("fp32", "bf16", "i64"),
    "optimizer": _one_of("adamw", "sgd"), "lr": _number, "weight_decay": _number, "clip": _number,
}
OF_OPTIMIZER = {
    "adamw": {"beta1": _number, "beta2": _number, "epsilon": _number},
    "sgd": {"momentum": _number},
}
TENSOR = {"name": _text, "shape": _shape, "frozen": _flag}
ARRAY = {
    "file": _text, "stage": _text, "step": _or_null(_count), "micro_batch": _or_null(_count), "kind": _text,
    "tensor": _or_null(_text), "first": _or_null(_count), "shape": _shape, "type": _one_of(*TYPES),
}


def _tensors(config, positions):
    """Shapes by name of what a model with a loss of tokens is made of; linears are (out, in)."""
    width, vocabulary = config["width"], config["vocabulary"]
    shapes = {"embeddings.token.weight": [vocabulary, width], "embeddings.position.weight": [positions, width]}
    norms, linears = ["head.norm"], {}
    for block in (f"block.{layer}." for layer in range(config["layers"])):
        norms += [block + "norm1", block + "norm2"]
        linears |= {block + "qkv": [3 * width, width], block + "out": [width, width]}
        linears |= {block + "up": [4 * width, width], block + "down": [width, 4 * width]}
    for name in norms:
        shapes |= {name + ".weight": [width], name + ".bias": [width]}
    for name, shape in linears.items():
        shapes |= {name + ".weight": shape, name + ".bias": shape[:1]}
    return shapes if config["tied"] else shapes | {"head.weight": [vocabulary, width]}


class Manifest:
    def __init__(self, folder):
        self.path = f"{folder}/manifest.json"
        try:
            fields = json.loads((pathlib.Path(folder) / "manifest.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise Unreadable(f"{folder}: has no manifest.json that can be read ({error})") from error
        if not isinstance(fields, dict):
            self._refuse("is no object")
        if fields.get("schema") != SCHEMA:
            self._refuse(f"schema is {fields.get('schema')}, not {SCHEMA}")
        self.config = self._field(fields, "config", lambda value: isinstance(value, dict))
        self._fields(self.config, CONFIG, "config.")
        self._fields(self.config, OF_OPTIMIZER[self.config["optimizer"]], "config.")
        self.positions = self._field(fields, "positions", _count)
        self.tensors = self._objects(fields, "tensors", TENSOR)
        self.arrays = self._objects(fields, "arrays", ARRAY)
        self.stages = self._field(fields, "stages", lambda value: isinstance(value, list) and all(map(_text, value)))
        if not self.stages:
            self._refuse("stages names no stage")
        for array in self.arrays:
            if array["stage"] not in self.stages:
                self._refuse(f"names arrays of stage {array['stage']}, which was not asked for")

    def require_gpt(self):
        """A model with a loss of tokens, and all of it."""
        config, names = self.config, [tensor["name"] for tensor in self.tensors]
        if config["sequence"] == 0 or "embeddings.token.weight" not in names:
            raise Unreadable(f"model {config['model']} has no loss of tokens: nothing to recompute")
        expected = _tensors(config, self.positions)
        for name in sorted(expected.keys() ^ set(names)):
            self._refuse(f"tensors: {name} is {'missing' if name in expected else 'none of the model'}")
        for number, tensor in enumerate(self.tensors):
            if tensor["shape"] != expected[tensor["name"]]:
                self._refuse(f"tensors[{number}].shape is {tensor['shape']}, not {expected[tensor['name']]}")
        if config["heads"] == 0 or config["width"] % config["heads"]:
            self._refuse(f"config.heads is {config['heads']}, which does not divide width {config['width']}")
        if config["sequence"] > self.positions:
            self._refuse(f"positions is {self.positions}, fewer than sequence {config['sequence']}")

    def _refuse(self, what):
        raise Unreadable(f"{self.path}: {what}")

    def _field(self, fields, name, is_kind, where=""):
        if name not in fields:
            self._refuse(f"lacks '{where}{name}'")
        if not is_kind(fields[name]):
            self._refuse(f"{where}{name} is {json.dumps(fields[name])[:60]}, which it cannot be")
        return fields[name]

    def _fields(self, fields, kinds, where):
        for name, is_kind in kinds.items():
            self._field(fields, name, is_kind, where)

    def _objects(self, fields, name, kinds):
        objects = self._field(fields, name, lambda value: isinstance(value, list))
        for number, each in enumerate(objects):
            if not isinstance(each, dict):
                self._refuse(f"{name}[{number}] is no object")
            self._fields(each, kinds, f"{name}[{number}].")
        return objects
