"""Reads the records of `zeroproof verify` (results/schema.md) and refuses, in one line, what is none."""

import json

CLAIMS = ("bits", "bytes", "memory", "work")


class BadInput(Exception):
    """What is wrong with the input, in one line for people."""


def read_lines(path):
    try:
        with open(path, encoding="utf-8") as file:
            lines = [(number, line) for number, line in enumerate(file, 1) if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise BadInput(f"{path}: {reason}; give the file that `zeroproof verify --out` wrote") from None
    for number, line in lines:
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise BadInput(
                f"{path}:{number}: not JSON ({error.msg}); one record a line is expected"
            ) from None
        if not isinstance(record, dict) or not isinstance(record.get("schema"), str):
            raise BadInput(f"{path}:{number}: a record is an object with a schema")
        yield number, record


def require_fields(where, record, fields):
    for field, kind in fields.items():
        value = record.get(field)
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            raise BadInput(f'{where}: field "{field}" is missing or of the wrong type; see results/schema.md')


def check_stage(where, stage):
    number, unknown = (int, float), type(None)
    require_fields(
        where,
        stage,
        {
            "stage": str,
            "proved": bool,
            "verdicts": dict,
            "step_times_s": list,
            "tokens_per_step": int,
            "peak_bytes": int,
            "held_at_peak_bytes": dict,
            "sent_bytes": (int, unknown),
            "sent_by_purpose_bytes": (dict, unknown),
            "passes": (*number, unknown),
        },
    )
    for claim in CLAIMS:
        verdict = stage["verdicts"].get(claim)
        require_fields(
            f"{where}, claim {claim}",
            verdict if isinstance(verdict, dict) else {},
            {"verdict": str, "evidence": list},
        )
    for table, measured in (("held_at_peak_bytes", "held"), ("sent_by_purpose_bytes", "sent")):
        for key, pair in (stage[table] or {}).items():
            require_fields(
                f"{where}, {table}, {key}",
                pair if isinstance(pair, dict) else {},
                {measured: int, "predicted": int},
            )
    for time_s in stage["step_times_s"]:
        if not isinstance(time_s, number) or time_s < 0:
            raise BadInput(f"{where}: step_times_s holds {time_s!r}, which is no time")


def load(path):
    """The run's record and its stages' records, in the order of the file."""
    run, stages = None, []
    for number, record in read_lines(path):
        where = f"{path}:{number}"
        if record["schema"] == "zeroproof/run/1":
            if run is not None:
                raise BadInput(f"{where}: a second run; give a file of one run")
            require_fields(where, record, {"config": dict, "machine": dict, "exit": int, "version": str})
            run = record
        elif record["schema"] == "zeroproof/stage/1":
            check_stage(where, record)
            stages.append(record)
        else:
            raise BadInput(f"{where}: schema {record['schema']} is not one of a run of `zeroproof verify`")
    if run is None or not stages:
        raise BadInput(f"{path}: no record of a {'stage' if run else 'run'} in it")
    return run, stages


def is_refuted(stage):
    return any(stage["verdicts"][claim]["verdict"] == "refuted" for claim in CLAIMS)


def rates(stage):
    """Tokens per second of every step; none of a refuted stage, whatever was timed."""
    if is_refuted(stage):
        return []
    return [stage["tokens_per_step"] / time_s for time_s in stage["step_times_s"] if time_s > 0]


def rate(stage):
    return None if is_refuted(stage) else stage.get("tokens_per_s")
