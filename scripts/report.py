#!/usr/bin/python3
"""One self-contained HTML page from the records of `zeroproof verify`: verdicts, memory, bytes, speed.

Every number stands beside its verdict: a stage with a refuted claim shows INVALID instead of a rate. Figures are told
apart by lightness and hatches, so that they survive a grey printer. Judges nothing itself. results/schema.md describes
the records.
"""

import argparse
import html
import io
import json
import os
import re
import sys

try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch
except ImportError:
    sys.stderr.write("report.py: no matplotlib: install Debian's python3-matplotlib and run /usr/bin/python3\n")
    sys.exit(5)

CLAIMS = ("bits", "bytes", "memory", "work")
MIB, MB = 2**20, 10**6

# Fill and hatch. Neighbours in a bar differ in lightness; where they come close, in hatch.
LOOKS = {
    "params": ("#f2f2f2", ""),
    "grads": ("#a9c7e0", "///"),
    "optimizer": ("#2b5c8a", ""),
    "gathered": ("#fdd0a2", "\\\\\\"),
    "bucket": ("#e6842a", "xxx"),
    "fold": ("#d9c2e9", "|||"),
    "activations": ("#8f8f8f", ""),
    "workspace": ("#c7e9c0", "---"),
    "transport": ("#2f7d3a", "+++"),
    "scalars": ("#000000", ""),
    "data": ("#ffffff", "++"),
    "gather params": ("#a9c7e0", "///"),
    "reduce grads": ("#2b5c8a", ""),
    "grad norm": ("#e6842a", "xxx"),
    "loss": ("#ffffff", "+++"),
}


class BadInput(Exception):
    """What is wrong with the input, in one line for people."""


# ---- Records


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
            raise BadInput(f"{path}:{number}: not JSON ({error.msg}); one record a line is expected") from None
        if not isinstance(record, dict) or not isinstance(record.get("schema"), str):
            raise BadInput(f"{path}:{number}: a record is an object with a schema")
        yield number, record


def require_fields(where, record, fields):
    for field, kind in fields.items():
        value = record.get(field)
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            raise BadInput(f"{where}: field \"{field}\" is missing or of the wrong type; see results/schema.md")


def check_stage(where, stage):
    number = (int, float)
    require_fields(where, stage, {
        "stage": str, "proved": bool, "verdicts": dict, "step_times_s": list, "tokens_per_step": int,
        "peak_bytes": int, "held_at_peak_bytes": dict, "sent_bytes": int, "sent_by_purpose_bytes": dict,
        "passes": number})
    for claim in CLAIMS:
        verdict = stage["verdicts"].get(claim)
        require_fields(f"{where}, claim {claim}", verdict if isinstance(verdict, dict) else {},
                       {"verdict": str, "evidence": list})
    for table, measured in (("held_at_peak_bytes", "held"), ("sent_by_purpose_bytes", "sent")):
        for key, pair in stage[table].items():
            require_fields(f"{where}, {table}, {key}", pair if isinstance(pair, dict) else {},
                           {measured: int, "predicted": int})
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


# ---- Figures


def svg(figure, name):
    """Inline SVG. The name keeps identifiers of the figures on a page apart; equal input gives equal text."""
    out = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(out, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    text = out.getvalue()
    return re.sub(r"^.*?(?=<svg )", "", text, flags=re.DOTALL)


def label(stage):
    refuted = [claim for claim in CLAIMS if stage["verdicts"][claim]["verdict"] == "refuted"]
    return stage["stage"] + (f"\n{', '.join(refuted)} REFUTED" if refuted else "")


def verdict_matrix(stages):
    figure, ax = plt.subplots(figsize=(7.2, 0.9 + 0.42 * len(stages)))
    looks = {"proved": ("#eef5ea", "", "black"), "refuted": ("#000000", "", "white")}
    for row, stage in enumerate(stages):
        for column, claim in enumerate(CLAIMS):
            verdict = stage["verdicts"][claim]["verdict"]
            fill, hatch, ink = looks.get(verdict, ("#ffffff", "///", "black"))
            ax.add_patch(plt.Rectangle((column, row), 1, 1, facecolor=fill, edgecolor="black", hatch=hatch))
            words = {"proved": "✓ proved", "refuted": "✗ REFUTED"}.get(verdict, verdict)
            weight = "bold" if verdict == "refuted" else "normal"
            box = None if verdict in looks else {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
            ax.text(column + 0.5, row + 0.5, words, ha="center", va="center", color=ink, weight=weight, bbox=box)
    ax.set_xlim(0, len(CLAIMS))
    ax.set_ylim(len(stages), 0)
    ax.set_xticks([i + 0.5 for i in range(len(CLAIMS))], CLAIMS)
    ax.set_yticks([i + 0.5 for i in range(len(stages))], [stage["stage"] for stage in stages])
    ax.tick_params(length=0, labeltop=True, labelbottom=False)
    ax.set_xlabel("claim, on every rank after every step")
    ax.set_ylabel("stage")
    return svg(figure, "verdicts")


def stacked_pairs(stages, table, measured, names, unit, axis):
    """Two bars a stage, stacked by key: what was measured, and under it, dashed, what was predicted."""
    figure, ax = plt.subplots(figsize=(8.6, 1.2 + 0.78 * len(stages)))
    keys = [key for key in LOOKS if any(any(stage[table].get(key, {}).values()) for stage in stages)]
    keys += sorted({key for stage in stages for key in stage[table]} - set(LOOKS))
    widest = max([sum(pair[which] for pair in stage[table].values()) for stage in stages
                  for which in (measured, "predicted")] + [1]) / unit
    for row, stage in enumerate(stages):
        for which, offset in ((measured, -0.2), ("predicted", 0.2)):
            left = 0.0
            for key in keys:
                width = stage[table].get(key, {}).get(which, 0) / unit
                fill, hatch = LOOKS.get(key, ("#ffffff", "**"))
                ax.barh(row + offset, width, 0.36, left=left, color=fill, hatch=hatch, edgecolor="black",
                        linewidth=0.8, linestyle="-" if which == measured else "--")
                left += width
            ax.text(left + 0.01 * widest, row + offset, f"{left:,.2f} {names[which]}", va="center", fontsize=8)
    ax.set_yticks(range(len(stages)), [label(stage) for stage in stages])
    ax.invert_yaxis()
    ax.set_xlim(0, widest * 1.28)
    ax.set_xlabel(axis)
    ax.set_ylabel("stage")
    ax.spines[["top", "right"]].set_visible(False)
    patches = [Patch(facecolor=LOOKS.get(key, ("#ffffff", "**"))[0], hatch=LOOKS.get(key, ("#ffffff", "**"))[1],
                     edgecolor="black", label=key) for key in keys]
    if patches:
        ax.legend(handles=patches, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, handleheight=1.4)
    return svg(figure, table)


def speed(stages):
    figure, ax = plt.subplots(figsize=(7.2, 1.0 + 0.45 * len(stages)))
    widest = max([sample for stage in stages for sample in rates(stage)] + [rate(stage) or 0 for stage in stages] + [1])
    for row, stage in enumerate(stages):
        median = rate(stage)
        if median is None:
            words = "INVALID: a claim was refuted" if is_refuted(stage) else "not measured"
            ax.text(0.01 * widest, row, words, va="center", weight="bold")
            continue
        ax.barh(row, median, 0.6, color="#c9c9c9", edgecolor="black", linewidth=0.8)
        ax.plot(rates(stage), [row] * len(rates(stage)), "o", markerfacecolor="white", markeredgecolor="black", ms=5)
        ax.text(max(rates(stage) + [median]) + 0.02 * widest, row, f"{median:,.0f}", va="center")
    ax.set_yticks(range(len(stages)), [stage["stage"] for stage in stages])
    ax.set_ylim(len(stages) - 0.5, -0.5)
    ax.set_xlim(0, widest * 1.15)
    ax.set_xlabel("tokens/s, all ranks together (bar: at the median step; circles: every step)")
    ax.set_ylabel("stage")
    ax.spines[["top", "right"]].set_visible(False)
    return svg(figure, "speed")


# ---- The page

STYLE = """
body { font: 15px/1.5 sans-serif; color: #111; background: #fff; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
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
    made = [f"<{tag}{f' class={kind}' if kind else ''}>{text(cell)}</{tag}>" for cell, kind in zip(cells, kinds)]
    return "<tr>" + "".join(made) + "</tr>"


def summary_table(stages):
    rows = [row(["stage", *CLAIMS, "step s", "tokens/s", "peak MiB", "sent MB", "passes", "hash"], "th")]
    for stage in stages:
        verdicts = [stage["verdicts"][claim]["verdict"] for claim in CLAIMS]
        times, invalid = sorted(stage["step_times_s"]), is_refuted(stage)
        middle = (times[(len(times) - 1) // 2] + times[len(times) // 2]) / 2 if times else None
        time_s = "INVALID" if invalid else None if middle is None else f"{middle:.3f}"
        per_s = "INVALID" if invalid else None if rate(stage) is None else f"{rate(stage):,.0f}"
        cells = [stage["stage"], *verdicts, time_s, per_s, f"{stage['peak_bytes'] / MIB:,.2f}",
                 f"{stage['sent_bytes'] / MB:,.3f}", f"{stage['passes']:.3g}", stage.get("hash")]
        kinds = ["text", *("refuted" if verdict == "refuted" else "text" for verdict in verdicts)]
        rows.append(row(cells, kinds=kinds + [""] * (len(cells) - len(kinds) - 1) + ["text"]))
    return "<table>" + "".join(rows) + "</table>"


def detail_table(stages, table, measured, heading):
    rows = [row(["stage", heading, f"{measured}, bytes", "predicted, bytes", "difference"], "th")]
    for stage in stages:
        for key, pair in stage[table].items():
            difference = pair[measured] - pair["predicted"]
            rows.append(row([stage["stage"], key, f"{pair[measured]:,}", f"{pair['predicted']:,}", f"{difference:+,}"
                             if difference else "0"], kinds=["text", "text", "", "", "refuted" if difference else ""]))
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
        return f"<p>One hash of parameters, masters and moments for every stage: <code>{text(hashes.pop())}</code></p>"
    return "<p>The stages end on different hashes; the table lists them.</p>"


def conclusion(stages):
    """The run in one sentence."""
    bad = [stage["stage"] for stage in stages if is_refuted(stage)]
    open_ = [stage["stage"] for stage in stages if not is_refuted(stage) and not stage["proved"]]
    if bad:
        return f"REFUTED in {', '.join(bad)}"
    if open_:
        return f"not every claim was measured in {', '.join(open_)}"
    return f"all {len(CLAIMS)} claims proved in {'the stage' if len(stages) == 1 else f'all {len(stages)} stages'}"


def settings_table(run):
    shown = {**run["config"], **run["machine"], "started": run.get("start_time"), "version": run["version"],
             "exit code": run["exit"]}
    rows = (row([name.replace("_", " "), "none" if value is None else value], kinds=["text", "text"])
            for name, value in shown.items())
    return f"<details><summary>Settings and machine</summary><table>{''.join(rows)}</table></details>"


def figure_html(number, drawing, alt, caption):
    return (f'<figure role="group" aria-label="{text(alt)}">{drawing}'
            f"<figcaption>Figure {number}. {text(caption)}</figcaption></figure>")


def page(run, stages):
    config = run["config"]
    injected = run.get("injected")
    banner = f'<p class="banner">INJECTED: {text(injected)}. This run was damaged on purpose.</p>' if injected else ""
    invalid = ('<p class="banner">INVALID: a claim was refuted; no rate of that stage is shown.</p>'
               if any(map(is_refuted, stages)) else "")
    memory = stacked_pairs(stages, "held_at_peak_bytes", "held", {"held": "held", "predicted": "ledger"}, MIB,
                           "MiB held by the rank with the largest peak, at its peak (dashed: the ledger's prediction)")
    sent = stacked_pairs(stages, "sent_by_purpose_bytes", "sent", {"sent": "sent", "predicted": "closed form"}, MB,
                         "MB (10⁶ bytes) sent by rank 0 in one step (dashed: the closed form)")
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>zeroproof: {text(conclusion(stages))}</title>
<style>{STYLE}</style></head><body>
<h1>zeroproof</h1>
<p>{text(config.get("model"))}, {text(config.get("ranks"))} ranks over {text(config.get("transport"))}
({text(config.get("algorithm"))}), recipe {text(config.get("recipe"))}, {text(config.get("steps"))} steps of
{text(config.get("micro_batches"))} micro-batches: <strong>{text(conclusion(stages))}</strong>.</p>
{banner}{invalid}{summary_table(stages)}{hash_line(stages)}
{f"<p>{text(run['hash_case'])}</p>" if run.get("hash_case") else ""}
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
             "Bytes sent per stage by purpose, beside the closed form. Loss and gradient norm are too small to see.")}
{detail_table(stages, "sent_by_purpose_bytes", "sent", "purpose")}
<h2>Speed</h2>
{figure_html(4, speed(stages), "Tokens per second of each stage",
             "Tokens per second of the proved stages: tokens of a step over the time of the slowest rank.")}
</body></html>
"""


def main():
    parser = argparse.ArgumentParser(description="Makes one HTML page from the records of `zeroproof verify`.")
    parser.add_argument("records", help="file that `zeroproof verify --out` wrote")
    parser.add_argument("--out", help="page to write; default: the record file's name with .html")
    options = parser.parse_args()
    out = options.out or os.path.splitext(options.records)[0] + ".html"
    matplotlib.rcParams.update({"font.family": "DejaVu Sans", "hatch.linewidth": 0.6, "svg.fonttype": "path"})
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
