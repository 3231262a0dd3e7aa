#!/usr/bin/python3
"""The product's sources as few translation units, for clang-tidy: most of what it does is reading headers.

Reads the compile commands of a build folder, writes its folder tidy/ with the units and their commands, and prints the
units' names, each followed by a zero byte. Every source of harness/ and kernels/ that the build compiles is in one of
them; what is compiled for several ISAs is looked at with one, and the vectors of each ISA with the file that is compiled
by itself for each. Usage: tidy_units.py BUILD-FOLDER
"""

import json
import pathlib
import re
import shlex
import sys

# Layers above the trainer: half of all.
UPPER = ("theory", "claim", "measure", "report", "suite")


def sources_of(command, root):
    """The product's sources that a command compiles: its file, or what that includes where a library is one file."""
    file = pathlib.Path(command["file"])
    files = [file]
    if "Unity" in file.parts:
        files = [pathlib.Path(name) for name in re.findall(r'#include "(.*\.cpp)"', file.read_text(encoding="utf-8"))]
    return [f for f in files if f.is_relative_to(root / "harness") or f.is_relative_to(root / "kernels")]


def unit_of(source, command, root):
    if source.name.endswith(".isa.cpp"):
        return "isa"
    if "emulated" in command["command"] or "cuda" in source.parts:
        return "cuda"
    return "upper" if source.relative_to(root).parts[1] in UPPER else "lower"


def options_of(commands):
    """Compiler and options that suit all of them."""
    words = {}  # ordered, each once
    for command in commands:
        split = shlex.split(command["command"])
        split = split[[i for i, word in enumerate(split) if re.search(r"clang\+\+", word)][0]:]
        taken = iter(split)
        for word in taken:
            if word in ("-o", "-c", "-MF", "-MT", "-include", "-Xclang", "-include-pch"):
                next(taken)
            elif word in ("-isystem", "-I"):
                words[f"-isystem{next(taken)}"] = None
            elif not word.startswith("-fsanitize") and word != "-MD":
                words[word] = None
    return list(words)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    folder = pathlib.Path(sys.argv[1]).resolve()
    commands = json.loads((folder / "compile_commands.json").read_text(encoding="utf-8"))
    commands.sort(key=lambda command: "emulated" in command["command"])  # as the host's, where it is that
    seen, units = set(), {}
    for command in commands:
        for source in sources_of(command, root):
            if source not in seen:
                seen.add(source)
                units.setdefault(unit_of(source, command, root), []).append((source, command))
    (folder / "tidy").mkdir(exist_ok=True)
    written = []
    for name, members in units.items():
        unit = folder / "tidy" / f"{name}.cpp"
        unit.write_text("".join(f'#include "{source}"\n' for source, _ in members), encoding="utf-8")
        # A source compiled for several ISAs has definitions of one of them.
        options = options_of([command for _, command in members][: 1 if name == "isa" else None])
        written.append({"directory": str(folder), "file": str(unit), "arguments": [*options, "-c", str(unit)]})
    written += [command for command in commands if command["file"].endswith("functions.isa.cpp")]
    (folder / "tidy/compile_commands.json").write_text(json.dumps(written), encoding="utf-8")
    print(*dict.fromkeys(command["file"] for command in written), sep="\0", end="\0")


if __name__ == "__main__":
    main()
