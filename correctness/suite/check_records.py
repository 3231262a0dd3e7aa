#!/usr/bin/env python3
"""Reads a record file as any user would, and holds it to results/schema.md: every field that is written is documented,
every documented field is written. Prints one line per contradiction; exits 1 where there is any.

usage: check_records.py SCHEMA.md FILE.jsonl"""
import json
import math
import re
import statistics
import sys


def top_rows(schema_text, name):
    """Fields of a schema's table: the first column."""
    section = schema_text.split(f"## `{name}`")[1].split("\n## ")[0]
    fields = set()
    for line in section.splitlines():
        if line.startswith("| `"):
            fields |= {re.split(r"[.\[]", field)[0] for field in re.findall(r"`([^`]+)`", line.split("|")[1])
                       if not field.startswith(".")}
    return fields


def no_constant(text):
    raise ValueError(f"{text} is not JSON")


def against_samples(record):
    """Rates of a stage that its own samples do not say."""
    samples, tokens = record["samples"], record["tokens_per_step"]
    if len(samples) != record["rounds"] * record["timed_steps"]:
        yield f"{len(samples)} samples of {record['rounds']} rounds of {record['timed_steps']} steps"
    first = record["warm_up_steps"]
    steps = {(sample["round"], sample["step"]) for sample in samples}
    if steps != {(r, first + s) for r in range(record["rounds"]) for s in range(record["timed_steps"])}:
        yield f"samples are of {sorted(steps)}"
    times = [sample["time_s"] for sample in samples]
    said = {"step_time_s": statistics.median(times), "tokens_per_s": tokens / statistics.median(times),
            "tokens_per_s_least": tokens / max(times), "tokens_per_s_most": tokens / min(times),
            "exposed_s": statistics.median(sample["exposed_s"] for sample in samples)}
    hidden, exposed = (sum(sample[key] for sample in samples) for key in ("hidden_s", "exposed_s"))
    said["overlap"] = hidden / (hidden + exposed)
    for field, value in said.items():
        if not math.isclose(record[field], value, rel_tol=1e-12):
            yield f"{field} is {record[field]}, and its samples say {value}"
    for sample in samples:
        if not 0 < sample["exposed_s"] <= sample["exposed_s"] + sample["hidden_s"] <= sample["time_s"]:
            yield f"transfers took longer than the step: {sample}"


def main(schema_path, record_path):
    schema_text = open(schema_path, encoding="utf-8").read()
    words = set(re.findall(r"[a-z_0-9]+", " ".join(re.findall(r"`([^`]+)`", schema_text))))
    wrong = []
    with open(record_path, encoding="utf-8") as file:
        records = [json.loads(line, parse_constant=no_constant) for line in file]
    for record in records:
        name = record["schema"]
        if list(record)[0] != "schema":
            wrong.append(f"{name}: schema is not the first field")
        fields, rows = set(record) - {"schema"}, top_rows(schema_text, name)
        wrong += [f"{name}: {field} is written and not documented" for field in fields - rows]
        wrong += [f"{name}: {field} is documented and not written" for field in rows - fields]
        for part in ("config", "machine", "exact"):
            inner = set(record.get(part) or {})
            wrong += [f"{name}: {part}.{field} is not documented" for field in inner - words]
        for claim, verdict in record.get("verdicts", {}).items():
            if verdict["holds"] is not {"proved": True, "refuted": False, "not measured": None}[verdict["verdict"]]:
                wrong.append(f"{record['stage']}: {claim}: holds disagrees with the verdict")
        if name == "zeroproof/bench-stage/1":
            wrong += [f"{record['stage']}: {problem}" for problem in against_samples(record)]
    print("\n".join(wrong) if wrong else f"{len(records)} records, {', '.join(r['schema'] for r in records[:2])}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
