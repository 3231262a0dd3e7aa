"""Figures of a run as inline SVG, told apart by lightness and hatches: they survive a grey printer."""

import io
import re
import sys

try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch
except ImportError:
    sys.stderr.write("No matplotlib: install Debian's python3-matplotlib and use /usr/bin/python3\n")
    sys.exit(5)

from records import CLAIMS, is_refuted, rate, rates

matplotlib.rcParams.update({"font.family": "DejaVu Sans", "hatch.linewidth": 0.6, "svg.fonttype": "path"})

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
            ax.text(
                column + 0.5, row + 0.5, words, ha="center", va="center", color=ink, weight=weight, bbox=box
            )
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
    stages = [{**stage, table: stage[table] or {}} for stage in stages]  # nothing where it was not measured
    keys = [key for key in LOOKS if any(any(stage[table].get(key, {}).values()) for stage in stages)]
    keys += sorted({key for stage in stages for key in stage[table]} - set(LOOKS))
    widest = (
        max(
            [
                sum(pair[which] for pair in stage[table].values())
                for stage in stages
                for which in (measured, "predicted")
            ]
            + [1]
        )
        / unit
    )
    for row, stage in enumerate(stages):
        for which, offset in ((measured, -0.2), ("predicted", 0.2)):
            left = 0.0
            for key in keys:
                width = stage[table].get(key, {}).get(which, 0) / unit
                fill, hatch = LOOKS.get(key, ("#ffffff", "**"))
                ax.barh(
                    row + offset,
                    width,
                    0.36,
                    left=left,
                    color=fill,
                    hatch=hatch,
                    edgecolor="black",
                    linewidth=0.8,
                    linestyle="-" if which == measured else "--",
                )
                left += width
            ax.text(
                left + 0.01 * widest, row + offset, f"{left:,.2f} {names[which]}", va="center", fontsize=8
            )
    ax.set_yticks(range(len(stages)), [label(stage) for stage in stages])
    ax.invert_yaxis()
    ax.set_xlim(0, widest * 1.28)
    ax.set_xlabel(axis)
    ax.set_ylabel("stage")
    ax.spines[["top", "right"]].set_visible(False)
    patches = [
        Patch(
            facecolor=LOOKS.get(key, ("#ffffff", "**"))[0],
            hatch=LOOKS.get(key, ("#ffffff", "**"))[1],
            edgecolor="black",
            label=key,
        )
        for key in keys
    ]
    if patches:
        ax.legend(
            handles=patches, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, handleheight=1.4
        )
    return svg(figure, table)


def speed(stages):
    figure, ax = plt.subplots(figsize=(7.2, 1.0 + 0.45 * len(stages)))
    widest = max(
        [sample for stage in stages for sample in rates(stage)] + [rate(stage) or 0 for stage in stages] + [1]
    )
    for row, stage in enumerate(stages):
        median = rate(stage)
        if median is None:
            words = "INVALID: a claim was refuted" if is_refuted(stage) else "not measured"
            ax.text(0.01 * widest, row, words, va="center", weight="bold")
            continue
        ax.barh(row, median, 0.6, color="#c9c9c9", edgecolor="black", linewidth=0.8)
        ax.plot(
            rates(stage),
            [row] * len(rates(stage)),
            "o",
            markerfacecolor="white",
            markeredgecolor="black",
            ms=5,
        )
        ax.text(max(rates(stage) + [median]) + 0.02 * widest, row, f"{median:,.0f}", va="center")
    ax.set_yticks(range(len(stages)), [stage["stage"] for stage in stages])
    ax.set_ylim(len(stages) - 0.5, -0.5)
    ax.set_xlim(0, widest * 1.15)
    ax.set_xlabel("tokens/s, all ranks together (bar: at the median step; circles: every step)")
    ax.set_ylabel("stage")
    ax.spines[["top", "right"]].set_visible(False)
    return svg(figure, "speed")
