#!/usr/bin/python3
"""What scripts/report.py promises.

A page of one file with every verdict in it, no rate without its proof, one clear line with exit code 6 for
input that is no record. The records are those of a real run, changed where a test says so.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = HERE.parent.parent / "scripts" / "report.py"
RECORDS = [json.loads(line) for line in (HERE / "run.jsonl").read_text(encoding="utf-8").splitlines()]


def fresh():
    return json.loads(json.dumps(RECORDS))


def refute(stage, claim, evidence):
    stage["proved"] = False
    stage["tokens_per_s"] = None
    stage["verdicts"][claim] = {"verdict": "refuted", "holds": False, "evidence": [evidence]}


class Report(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.records = pathlib.Path(self.folder.name) / "run.jsonl"
        self.html = pathlib.Path(self.folder.name) / "run.html"

    def run_script(self, content):
        if isinstance(content, list):
            content = "".join(json.dumps(record) + "\n" for record in content)
        self.records.write_bytes(content if isinstance(content, bytes) else content.encode())
        return self.run_on(self.records)

    def run_on(self, path, *more):
        return subprocess.run(
            [sys.executable, SCRIPT, path, *more], capture_output=True, text=True, check=False
        )

    def page_of(self, records):
        done = self.run_script(records)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return self.html.read_text(encoding="utf-8")

    def assert_refused(self, done, says):
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(says, done.stderr)
        self.assertFalse(self.html.exists())

    def test_shows_four_figures_every_stage_and_the_hash_in_one_file(self):
        page = self.page_of(RECORDS)
        self.assertEqual(page.count("<svg "), 4)
        self.assertNotRegex(page, r'(src|href)="(?!#)', "the page must need no other file")
        for stage in RECORDS[1:]:
            self.assertIn(f"<td class=text>{stage['stage']}</td>", page)
            self.assertIn(stage["hash"], page)
            for pair in stage["held_at_peak_bytes"].values():
                self.assertIn(f"<td>{pair['predicted']:,}</td>", page)
        self.assertIn(f"all 4 claims proved in all {len(RECORDS) - 1} stages", page)
        self.assertNotIn("INVALID", page)
        self.assertNotIn("INJECTED", page)

    def test_shows_invalid_instead_of_the_rate_of_a_refuted_stage_even_where_the_record_holds_one(self):
        records = fresh()
        refute(records[3], "memory", "step 1, rank 2: grads <more than the ledger says>")
        records[3]["tokens_per_s"] = 123456.0
        records[3]["held_at_peak_bytes"]["grads"]["held"] += 4
        page = self.page_of(records)
        self.assertNotIn("123,456", page)
        self.assertIn(f"REFUTED in {records[3]['stage']}", page)
        self.assertEqual(page.count("<td>INVALID</td>"), 2)
        self.assertIn("grads &lt;more than the ledger says&gt;", page)
        self.assertIn("<td class=refuted>+4</td>", page)

    def test_says_not_measured_where_a_claim_was_not(self):
        records = fresh()
        records[1]["proved"] = False
        records[1]["verdicts"]["bytes"] = {"verdict": "not measured", "holds": None, "evidence": []}
        records[1] |= {"sent_bytes": None, "sent_by_purpose_bytes": None, "passes": None}
        page = self.page_of(records)
        self.assertIn(f"not every claim was measured in {records[1]['stage']}", page)
        self.assertIn("<td class=text>not measured</td>", page)
        self.assertNotIn("claims proved", page)

    def test_says_that_hashes_differ(self):
        records = fresh()
        records[2]["hash"] = "0" * 32
        self.assertIn("different hashes", self.page_of(records))

    def test_carries_the_banner_of_an_injected_fault(self):
        records = fresh()
        for record in records:
            record["injected"] = "bitflip:rank=1"
        self.assertIn("INJECTED: bitflip:rank=1", self.page_of(records))

    def test_is_the_same_text_for_the_same_records(self):
        self.assertEqual(self.page_of(RECORDS), self.page_of(RECORDS))

    def test_refuses_what_is_no_record_in_one_line(self):
        for content, says in (
            ("", "no record of a run"),
            ("hello\n", ":1: not JSON"),
            ("[1, 2]\n", ":1: a record is an object"),
            (b"\xff\xfe\x00", "not UTF-8"),
            ('{"schema": "zeroproof/plan/1"}\n', "zeroproof/plan/1"),
            (RECORDS[:1], "no record of a stage"),
            (RECORDS[1:], "no record of a run"),
            (RECORDS + RECORDS, "a second run"),
            (json.dumps(RECORDS[0]) + "\n" + json.dumps(RECORDS[1])[:200], ":2: not JSON"),
        ):
            with self.subTest(says=says):
                self.assert_refused(self.run_script(content), says)

    def test_refuses_a_record_with_a_field_missing_or_of_another_type(self):
        for field, value in (
            ("verdicts", None),
            ("peak_bytes", "many"),
            ("proved", 1),
            ("step_times_s", [-1.0]),
            ("held_at_peak_bytes", {"grads": {"held": 1}}),
        ):
            with self.subTest(field=field):
                records = fresh()
                records[1][field] = value
                self.assert_refused(self.run_script(records), field)

    def test_refuses_a_missing_file_and_a_page_that_cannot_be_written(self):
        self.assert_refused(self.run_on(self.records), "No such file")
        self.run_script(RECORDS)
        self.html.unlink()
        self.assert_refused(self.run_on(self.records, "--out", self.folder.name), "Is a directory")


if __name__ == "__main__":
    unittest.main()
