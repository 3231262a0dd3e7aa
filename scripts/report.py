#!/usr/bin/python3
"""One self-contained HTML page from the records of `zeroproof verify`: verdicts, memory, bytes, speed.

Every number stands beside its verdict: a stage with a refuted claim shows INVALID instead of a rate. Judges
nothing itself.
"""

import argparse
import html
import os
import statistics
import sys

from figures import MB, MIB, speed, stacked_pairs, verdict_matrix
from records import CLAIMS, BadInput, is_refuted, load, rate

STYLE = """
body { font: 15px/1.5 sans-serif; color: #111; background: #fff; max-width: 62rem; margin: 2rem auto;
  padding: 0 1rem }
h1 { margin-bottom: 0 } h2 { margin: 2.2rem 0 .4rem } code { font-size: .95em; overflow-wrap: anywhere }
table { border-collapse: collapse; margin: .6rem 0 } th, td { border: 1px solid #888; padding: .2rem .6rem }
td { text-align: right } th, td.text { text-align: left }
td.refuted { background: #000; color: #fff; font-weight: bold }
.banner { border: 4px solid #000; padding: .5rem 1rem; font-weight: bold; margin: 1rem 0 }
figure { margin: 1rem 0; break-inside: avoid } figure svg { max-width: 100%; height: auto }
figcaption { color: #333 } pre { white-space: pre-wrap; border-left: 4px solid #000; padding-left: .8rem }
"""


def text(value):
    return html.escape("not measured" if value is None else str(value))


def row(cells, tag="td", kinds=None):
    kinds = kinds or [""] * len(cells)
    made = [
        f"<{tag}{f' class={kind}' if kind else ''}>{text(cell)}</{tag}>" for cell, kind in zip(cells, kinds)
    ]
    return "<tr>" + "".join(made) + "</tr>"


def summary_table(stages):
    rows = [row(["stage", *CLAIMS, "step s", "tokens/s", "peak MiB", "sent MB", "passes", "hash"], "th")]
    for stage in stages:
        verdicts = [stage["verdicts"][claim]["verdict"] for claim in CLAIMS]
        invalid, times = is_refuted(stage), stage["step_times_s"]
        time_s = "INVALID" if invalid else f"{statistics.median(times):.3f}" if times else None
        per_s = "INVALID" if invalid else None if rate(stage) is None else f"{rate(stage):,.0f}"
        cells = [
            stage["stage"],
            *verdicts,
            time_s,
            per_s,
            f"{stage['peak_bytes'] / MIB:,.2f}",
            None if stage["sent_bytes"] is None else f"{stage['sent_bytes'] / MB:,.3f}",
            None if stage["passes"] is None else f"{stage['passes']:.3g}",
            stage.get("hash"),
        ]
        kinds = ["text", *("refuted" if verdict == "refuted" else "text" for verdict in verdicts)]
        rows.append(row(cells, kinds=kinds + [""] * (len(cells) - len(kinds) - 1) + ["text"]))
    return "<table>" + "".join(rows) + "</table>"


def detail_table(stages, table, measured, heading):
    rows = [row(["stage", heading, f"{measured}, bytes", "predicted, bytes", "difference"], "th")]
    for stage in stages:
        for key, pair in (stage[table] or {}).items():
            difference = pair[measured] - pair["predicted"]
            rows.append(
                row(
                    [
                        stage["stage"],
                        key,
                        f"{pair[measured]:,}",
                        f"{pair['predicted']:,}",
                        f"{difference:+,}" if difference else "0",
                    ],
                    kinds=["text", "text", "", "", "refuted" if difference else ""],
                )
            )
    return f"<details><summary>The same in numbers</summary><table>{''.join(rows)}</table></details>"


def evidence(stages):
    parts = []
    for stage in stages:
        for claim in CLAIMS:
            verdict = stage["verdicts"][claim]
            if verdict["verdict"] == "refuted":
                lines = "\n".join(text(line) for line in verdict["evidence"])
                parts.append(f"<h3>{text(stage['stage'])}, {claim}</h3><pre>{lines}</pre>")
    return "<h2>What was refuted</h2>" + "".join(parts) if parts else ""


def hash_line(stages):
    hashes = {stage.get("hash") for stage in stages}
    if len(hashes) == 1 and None not in hashes:
        only = text(hashes.pop())
        return f"<p>One hash of parameters, masters and moments for every stage: <code>{only}</code></p>"
    return "<p>The stages end on different hashes; the table lists them.</p>"


def conclusion(stages):
    """The run in one sentence."""
    bad = [stage["stage"] for stage in stages if is_refuted(stage)]
    open_ = [stage["stage"] for stage in stages if not is_refuted(stage) and not stage["proved"]]
    if bad:
        return f"REFUTED in {', '.join(bad)}"
    if open_:
        return f"not every claim was measured in {', '.join(open_)}"
    where = "the stage" if len(stages) == 1 else f"all {len(stages)} stages"
    return f"all {len(CLAIMS)} claims proved in {where}"


def settings_table(run):
    shown = {
        **run["config"],
        **run["machine"],
        "started": run.get("start_time"),
        "version": run["version"],
        "exit code": run["exit"],
    }
    rows = (
        row([name.replace("_", " "), "none" if value is None else value], kinds=["text", "text"])
        for name, value in shown.items()
    )
    return f"<details><summary>Settings and machine</summary><table>{''.join(rows)}</table></details>"


def figure_html(number, drawing, alt, caption):
    return (
        f'<figure role="group" aria-label="{text(alt)}">{drawing}'
        f"<figcaption>Figure {number}. {text(caption)}</figcaption></figure>"
    )


def page(run, stages):
    config = run["config"]
    injected = run.get("injected")
    banner = (
        f'<p class="banner">INJECTED: {text(injected)}. This run was damaged on purpose.</p>'
        if injected
        else ""
    )
    invalid = (
        '<p class="banner">INVALID: a claim was refuted; no rate of that stage is shown.</p>'
        if any(map(is_refuted, stages))
        else ""
    )
    memory = stacked_pairs(
        stages,
        "held_at_peak_bytes",
        "held",
        {"held": "held", "predicted": "ledger"},
        MIB,
        "MiB held by the rank with the largest peak, at its peak (dashed: the ledger's prediction)",
    )
    sent = stacked_pairs(
        stages,
        "sent_by_purpose_bytes",
        "sent",
        {"sent": "sent", "predicted": "closed form"},
        MB,
        "MB (10⁶ bytes) sent by rank 0 in one step (dashed: the closed form)",
    )
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>zeroproof: {text(conclusion(stages))}</title>
<style>{STYLE}</style></head><body>
<h1>zeroproof</h1>
<p>{text(config.get("model"))}, {text(config.get("ranks"))} ranks over {text(config.get("transport"))}
({text(config.get("algorithm"))}), recipe {text(config.get("recipe"))}, {text(config.get("steps"))} steps of
{text(config.get("micro_batches"))} micro-batches: <strong>{text(conclusion(stages))}</strong>.</p>
{banner}{invalid}{summary_table(stages)}{hash_line(stages)}
{f"<p>{text(run['hash_case'])}</p>" if run.get("hash_case") else ""}
{f"<p>Bits were judged by golden file {text(run['golden'])}.</p>" if run.get("golden") else ""}
{settings_table(run)}
{evidence(stages)}
<h2>Verdicts</h2>
{figure_html(1, verdict_matrix(stages), "Verdict of each claim for each stage",
             "Every claim of every stage: proved, refuted, or not measured.")}
<h2>Memory</h2>
{figure_html(2, memory, "Memory per stage by category, held and predicted",
             "Memory per stage by category, beside what the ledger predicts.")}
{detail_table(stages, "held_at_peak_bytes", "held", "category")}
<h2>Bytes</h2>
{figure_html(3, sent, "Bytes sent per stage by purpose, measured and predicted",
             "Bytes sent per stage by purpose, beside the closed form; loss and norm are too small to see.")}
{detail_table(stages, "sent_by_purpose_bytes", "sent", "purpose")}
<h2>Speed</h2>
{figure_html(4, speed(stages), "Tokens per second of each stage",
             "Tokens per second of the proved stages: tokens of a step over the time of the slowest rank.")}
</body></html>
"""


def main():
    parser = argparse.ArgumentParser(
        description="Makes one HTML page from the records of `zeroproof verify`."
    )
    parser.add_argument("records", help="file that `zeroproof verify --out` wrote")
    parser.add_argument("--out", help="page to write; default: the record file's name with .html")
    options = parser.parse_args()
    out = options.out or os.path.splitext(options.records)[0] + ".html"
    try:
        text_of_page = page(*load(options.records))
        try:
            with open(out, "w", encoding="utf-8") as file:
                file.write(text_of_page)
        except OSError as error:
            raise BadInput(f"{out}: {error.strerror}; give --out a file that can be written") from None
    except BadInput as problem:
        sys.stderr.write(f"report.py: {problem}\n")
        return 6
    print(f"Report: {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
