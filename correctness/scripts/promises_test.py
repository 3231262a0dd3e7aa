#!/usr/bin/python3
"""What README promises of the executable, tried on the executable.

Its example commands, one hash over stages, numbers of ranks and transports, and the exit code of every fault,
the same on every rank. The environment must suit mpirun (scripts/mpi_env.sh).
Usage: promises_test.py EXECUTABLE
"""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXECUTABLE = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else str(ROOT / "build" / "zeroproof")
HASH = re.compile(r"^hash ([0-9a-f]{32})", re.MULTILINE)
STAGES = ("ddp", "zero1", "zero1-allreduce", "zero2", "zero3", "zero3-keep")


def run(words, folder=None):
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder, timeout=300)


def verify(ranks, *options, transport="threads"):
    """A run's finished process; `ranks` threads of one process, or processes under mpirun."""
    words = [EXECUTABLE, "verify", "--model", "tiny", *options]
    return run(
        [*words, "--ranks", str(ranks)] if transport == "threads" else ["mpirun", "-n", str(ranks), *words]
    )


def example_commands():
    """Commands of README's examples with the exit code that their remark names, 0 where it names none."""
    block = re.search(r"## Examples\n+```\n(.*?)```", README, re.DOTALL).group(1)
    for line in block.splitlines():
        command, _, remark = line.partition("  ")
        code = re.search(r"exit code (\d+)", remark)
        yield command, int(code.group(1)) if code else 0


def documented_faults():
    """Fault, exit code: the rows of README's table."""
    return [
        (kind, int(code))
        for kind, code in re.findall(r"^\| `([a-z-]+)` \|.*, (\d+) \|$", README, re.MULTILINE)
    ]


class Promises(unittest.TestCase):
    def assert_proved(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"{4 * len(STAGES)} claims proved, 0 refuted", done.stdout)
        return HASH.findall(done.stdout)

    def test_the_table_of_ratios_is_what_the_records_say(self):
        done = run([sys.executable, str(ROOT / "bench" / "record.py"), "--table"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(len(done.stdout.splitlines()), 2, "results/ has records of benchmarks")
        self.assertIn(done.stdout, README)

    def test_the_example_commands_end_as_described(self):
        commands = list(example_commands())
        self.assertGreater(len(commands), 5)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "build").mkdir()
            (folder / "build" / "zeroproof").symlink_to(EXECUTABLE)
            for name in ("scripts", "results"):
                (folder / name).symlink_to(ROOT / name)
            (folder / "run.jsonl").write_bytes((ROOT / "correctness/scripts/run.jsonl").read_bytes())
            for command, code in commands:
                with self.subTest(command=command):
                    done = run(shlex.split(command), folder)
                    self.assertEqual(done.returncode, code, done.stdout + done.stderr)

    def test_one_hash_over_stages_transports_and_powers_of_two(self):
        hashes = set()
        for transport, ranks in (
            ("threads", 1),
            ("threads", 2),
            ("threads", 4),
            ("threads", 8),
            ("mpi", 2),
            ("mpi", 4),
        ):
            with self.subTest(transport=transport, ranks=ranks):
                found = self.assert_proved(verify(ranks, "--steps", "2", transport=transport))
                self.assertEqual(len(found), 1, "one for all stages")
                hashes.update(found)
        self.assertEqual(len(hashes), 1, hashes)

    def test_every_other_number_of_ranks_is_proved_alike_on_both_transports(self):
        for ranks in (3, 5, 6, 7):
            with self.subTest(ranks=ranks):
                threads = self.assert_proved(verify(ranks, "--steps", "2"))
                if ranks in (3, 5):
                    self.assertEqual(
                        self.assert_proved(verify(ranks, "--steps", "2", transport="mpi")), threads
                    )

    def test_bf16_gradients_are_proved_with_and_without_accumulation(self):
        for ranks in (2, 3, 4):
            for micro_steps in (1, 2):
                with self.subTest(ranks=ranks, micro_steps=micro_steps):
                    self.assert_proved(
                        verify(ranks, "--recipe", "bf16", "--micro-batches", str(ranks * micro_steps), "--steps", "2")
                    )

    def test_golden_files_judge_both_transports(self):
        files = sorted((ROOT / "results" / "golden").glob("*.json"))
        self.assertGreater(len(files), 1)
        for path in files:
            golden = json.loads(path.read_text(encoding="utf-8"))
            config, ranks = golden["config"], golden["layout"]["ranks"]
            options = ["--golden", str(path), "--recipe", config["recipe"]]
            if config["wire"] == "i64":
                options += ["--wire", "i64"]
            for transport in ("threads", "mpi"):
                with self.subTest(path=path.name, transport=transport):
                    done = verify(ranks, *options, transport=transport)
                    self.assert_proved(done)
                    self.assertIn("bits by golden file", done.stdout)

    def test_every_fault_ends_every_rank_with_its_documented_code(self):
        faults = documented_faults()
        self.assertEqual(len(faults), 7)
        for kind, code in faults:
            with self.subTest(kind=kind):
                command = shlex.join(
                    [EXECUTABLE, "verify", "--model", "tiny", "--steps", "2", "--inject", f"{kind}:step=1"]
                )
                done = run(["mpirun", "-n", "3", "sh", "-c", f"{command}; echo code $?"])
                self.assertEqual(
                    re.findall(r"^code (\d+)$", done.stdout, re.MULTILINE), [str(code)] * 3, done.stdout
                )
                for word in ("INJECTED", "REFUTED", "INVALID", "step 1", "rank ", "place "):
                    self.assertIn(word, done.stdout)


if __name__ == "__main__":
    unittest.main()
