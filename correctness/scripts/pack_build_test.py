#!/usr/bin/env python3
"""The build that scripts/gpu_check.sh makes on a machine without MPI, fmt, CLI11 and nlohmann-json, from the headers
that scripts/gpu_pack.sh gathers: everything that reads them or does without MPI is compiled, linked and run, and every
header of these libraries that was read must be one of the pack. What is missing in a pack must be noticed. Other
objects are the same in either build, and are taken from an existing one.

  pack_build_test.py BUILD FOLDER        an existing build of the executable, and where to build
"""
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACK = ROOT / "gpu_pack"
PACKAGES = {"fmt": "fmt", "CLI11": "CLI", "nlohmann_json": "nlohmann"}  # as CMake calls it, and its folder of headers
# What nvcc need not compile: it is compiled for every GPU elsewhere.
HOST_CODE_FOR_GPUS = ("unity_0_cxx.cxx.o", "cuda_rates.cpp.o", "vendor_table.cpp.o", "cublaslt_opened.cpp.o",
                      "tensor_peak.cpp.o")  # the first is all of zeroproof_cuda's own
VENDORS = {"nccl.h": "ZP_NCCL_INCLUDE", "cublasLt.h": "ZP_CUBLASLT_INCLUDE"}


def run(*words, codes=(0,), at=ROOT):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, cwd=at)
    if done.returncode not in codes:
        sys.exit(f"{' '.join(map(str, words))}: exit {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done


def configure(folder, pack, codes=(0,)):
    hidden = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{package}=ON" for package in PACKAGES]
    vendors = [f"-D{folder}={pack}/include" for header, folder in VENDORS.items() if (pack / "include" / header).exists()]
    # Nothing is optimised, no kernel is compiled, and no library waits for another one.
    cheap = ["-DZP_UNITY=ON", "-DCMAKE_OPTIMIZE_DEPENDENCIES=ON", "-DCMAKE_CXX_FLAGS_RELEASE=-O0", "-DZP_CUDA_TARGETS=80-virtual"]
    return run("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DZP_TESTS=OFF",
               "-DZP_BENCH=OFF", "-DZP_GPU_CHECK=ON", "-DZP_MPI=OFF", f"-DZP_PACK={pack}",
               *vendors, *hidden, *cheap, codes=codes)


def is_foreign(header, pack):
    """Whether it is of a library that should come from the pack, or of MPI, and does not."""
    path = pathlib.PurePath(header)
    of_packages = not {*PACKAGES.values(), "openmpi", "mpich"}.isdisjoint(path.parts[:-1])
    of_packages = of_packages or path.name in ("mpi.h", *VENDORS)
    # cuBLASLt's headers are copied to a folder of the build, from the one that CMake was told.
    return of_packages and not path.is_relative_to(pack) and path.parent.name != "cublaslt"


def headers_read(folder):
    lines = run("ninja", "-C", folder, "-t", "deps").stdout.splitlines()
    return {os.path.normpath(os.path.join(folder, line.strip())) for line in lines if line.startswith("    ")}


def commands_of(folder):
    """Commands that compile, by the object that each makes."""
    entries = json.loads((folder / "compile_commands.json").read_text(encoding="utf-8"))
    commands = {}
    for entry in entries:
        words = shlex.split(entry["command"])
        commands[words[words.index("-o") + 1]] = words
    return commands


def build(folder):
    """Libraries that read the pack or have a part for MPI, and host code for GPUs."""
    commands = commands_of(folder)
    target_of = {name: name.split("CMakeFiles/")[1].split(".dir/")[0] for name in commands}
    reads_pack = {target_of[name] for name, words in commands.items() if any(str(PACK) in word for word in words)}
    libraries = {"zp_transport", *(target for target in reads_pack if target.startswith("zp_"))}
    for_gpus = [name for name in commands
                if target_of[name] in ("zeroproof_cuda", "zp_kernels_cuda", "cuda_rates") and name.endswith(HOST_CODE_FOR_GPUS)]
    run("cmake", "--build", folder, "-j", os.cpu_count(), "--target", *libraries, *for_gpus)
    return libraries, for_gpus


def link(folder, existing):
    """As the build would; what it has not made is the existing one's."""
    command = run("ninja", "-C", folder, "-t", "commands", "zeroproof").stdout.splitlines()[-1]
    words = shlex.split(command.removeprefix(": && ").removesuffix(" && :"))
    made = [word if not word.endswith((".a", ".o")) or (folder / word).exists() else existing / word for word in words]
    run(*made, at=folder)


def check_headers(folder):
    read = headers_read(folder)
    for name in PACKAGES.values():
        if not any(pathlib.PurePath(header).is_relative_to(PACK / "include" / name) for header in read):
            sys.exit(f"no header of {name} was read from {PACK}: it was not built as it is there")
    foreign = sorted(header for header in read if is_foreign(header, PACK))
    if foreign:
        sys.exit("read from elsewhere than the pack: " + ", ".join(foreign))
    return len([header for header in read if pathlib.PurePath(header).is_relative_to(PACK)])


def check_executable(folder):
    proved = run(folder / "zeroproof", "verify", "--ranks", 2, "--model", "synthetic", "--steps", 1)
    if "24 claims proved" not in proved.stdout:
        sys.exit(proved.stdout)
    refused = run(folder / "zeroproof", "verify", "--transport", "mpi", codes=(5,))
    if refused.stderr.count("\n") != 1:
        sys.exit(refused.stderr)


def check_what_is_missing(folder):
    """Every package without a header that it needs, which the system may have; and no pack at all."""
    words = next(words for name, words in commands_of(folder).items() if "zp_suite" in name)
    words = words[:words.index("-o")]
    for whole, part in (("fmt/format.h", "fmt/core.h"), ("CLI/CLI.hpp", "CLI/App.hpp"),
                        ("nlohmann/json.hpp", "nlohmann/detail/exceptions.hpp")):
        source = folder / "one_header.cpp"
        source.write_text(f"#include <{whole}>\n", encoding="utf-8")
        broken = folder / "broken_pack"
        for pack in (PACK, broken):
            read = run(*[word.replace(str(PACK), str(pack)) for word in words], "-M", source, codes=(0, 1))
            noticed = read.returncode == 1 or any(is_foreign(header, pack) for header in read.stdout.split())
            if noticed != (pack == broken):
                sys.exit(f"{pack}{' without ' + part if pack == broken else ''}: {read.stdout}{read.stderr}")
            if pack == PACK:
                shutil.rmtree(broken, ignore_errors=True)
                shutil.copytree(PACK, broken)
                (broken / "include" / part).unlink()
    said = " ".join(configure(folder, folder / "no_pack", codes=(1,)).stderr.split())
    if "has no fmt/format.h" not in said:
        sys.exit(f"without a pack: {said}")


def check_vendors(existing):
    found = (existing / "CMakeCache.txt").read_text(encoding="utf-8")
    for header, folder in VENDORS.items():
        if f"{folder}:PATH=/" in found and not (PACK / "include" / header).exists():
            sys.exit(f"{header} was found here, and {PACK} lacks it")


def main():
    existing, folder = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    print(run("scripts/gpu_pack.sh").stdout, end="")
    check_vendors(existing)
    configure(folder, PACK)
    libraries, for_gpus = build(folder)
    link(folder, existing)
    count = check_headers(folder)
    check_executable(folder)
    check_what_is_missing(folder)
    print(f"linked {', '.join(sorted(libraries))} from {count} headers of the pack; {len(for_gpus)} objects for GPUs")


if __name__ == "__main__":
    main()
