"""Tables of a comparison, in Markdown: what ran, what the ratios come to, the worst rows, all rows.

Decides the words and columns; the figures are ratios.py's and speed.py's. Invariant: a table never says more than its document
holds. A document that was put together of parts has the table of one that was made at once.
"""
import chunk_check
import drawing
import ratios

NAMES = {"cublas": "cuBLAS", "cublas_fast": "cuBLAS, fast sums", "deep_gemm": "DeepGEMM, by its ratio to cuBLAS", "cudnn": "cuDNN", "fa2": "FA2", "fa3": "FA3", "copy": "copy", "triton": "Triton", "torch": "PyTorch"}
MOST_ROWS = 200  # of the table of all rows
MACHINE = [("gpu", ""), ("driver", "driver "), ("cuda", "CUDA "), ("pytorch", "PyTorch "), ("cudnn", "cuDNN "), ("triton", "Triton "), ("target", "target ")]


def title(document):
    draw = document["draw"]
    count = draw["count"]
    kind = f"{count} drawn problems, seed {draw['seed']}" if draw["sizes"] == "drawn" else f"{count} problems of the {draw['sizes']} list, seed {draw['seed']}"
    return f"{draw['op']}, {kind}"


def machine_text(machine):
    known = ", ".join(before + str(machine[name]) for name, before in MACHINE if machine.get(name) not in (None, "", "unknown", "None"))
    return f"{known}; tilejit {machine['tilejit']}, build {machine['build_id'][:12]}, commit {machine['commit']}."


def how_text(document):
    draw = document["draw"]
    text = (f"Medians of {draw['rounds']} x {draw['runs']} times a way; candidates alternate; normal random data. Single calls: caches flushed before each. "
            "Graph replays: back to back. Speed over a peer is its time over ours.")
    if draw["op"] == "chunk_o":
        text += " Calls go round copies of the problem, so that no input is in L2; the copy moves as many bytes."
    if draw["tile"]:
        text += f" Only tiles of {draw['tile']}."
    return text + (" Tiles as tj-warm --tune chose them." if draw["tuned"] else "")


def number(value, digits=3):
    return "-" if value is None else f"{value:.{digits}f}"


def summary_lines(document):
    rows = document["rows"]
    lines = ["| way | over | problems | geometric mean | 5th percentile | worst | below 0.93 | mean of first timings |", "|" + "---|" * 8]
    for one in ratios.summary(rows):
        lines.append(f"| {ratios.WAYS[one['way']]} | {NAMES[one['peer']]} | {one['problems']} | {number(one['geometric_mean'])} | {number(one['percentile_5'])} | "
                     f"{number(one['worst'])} (#{one['worst_number']}) | {one['below']} | {number(one['first_geometric_mean'])} |")
    again = sum(len(row["timings"]) > 1 for row in rows)
    lines += ["", f"Timed again, as a ratio was below {ratios.BEHIND}: {again} of {len(rows)} problems. The later timing counts; both stand in the rows."]
    tiles = ratios.tiles_summary(rows)
    if tiles:
        lines += ["", f"The predicted tile beside the best of all, {tiles['problems']} problems: slower by {percent(tiles['geometric_mean'])} (geometric mean), "
                  f"{percent(tiles['percentile_95'])} (95th percentile), {percent(tiles['worst'])} at most (#{tiles['worst_number']}); the same tile in {tiles['same']}."
                  + (f" The two were timed again by themselves; as the least of all was found: {percent(tiles['first_geometric_mean'])}." if tiles["again"] else "")
                  + (f" With the best tiles the graph replays would be at {tiles['best_over_cublas']:.3f} over cuBLAS." if tiles["best_over_cublas"] else "")]
    checked = [row for row in rows if "check" in row]
    worst = max((row["check"]["error"] / row["check"]["limit"] for row in checked), default=None)
    refused = [f"#{row['number']} ({row['refused']['tilejit']})" for row in rows if "tilejit" in row["refused"]]
    lines += ["", f"Results checked against f64, outputs poisoned: {len(checked)}, of them {sum(row.get('wrong', False) for row in rows)} wrong"
              + (f"; largest error {worst:.2f} of its limit." if worst is not None else ".") + (f" Refused: {', '.join(refused)}." if refused else "")]
    if "failed" in document:
        lines += ["", f"Ended by a failure: {document['failed']}"]
    if document["missing"]:
        lines += ["", f"Missing of {document['draw']['count']}: {numbers_text(document['missing'])}."]
    return lines


def percent(ratio):
    return f"{(ratio - 1) * 100:.1f}%"


def numbers_text(numbers):
    """[1, 2, 3, 7] -> "1-3, 7"."""
    runs = []
    for value in sorted(numbers):
        if runs and runs[-1][1] == value - 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def columns_of(rows):
    """(way, peer) in the order of a table, of all that a row has."""
    return [(one["way"], one["peer"]) for one in ratios.summary(rows)]


def ratio_cell(row, way, peer):
    """"0.951", or with the first one "0.951 (0.921)"."""
    values = [timing["ratios"].get(way, {}).get(peer) for timing in row["timings"]]
    if not values or values[-1] is None:
        return "-"
    return number(values[-1]) + (f" ({number(values[0])})" if len(values) > 1 else "")


def note(row):
    words = ["WRONG"] if row.get("wrong") else []
    words += [f"no {NAMES.get(name, name)}" for name in row["refused"]]
    words += [f"{NAMES[name]} with repeated heads" for name in row.get("repeated_heads", [])]
    return ", ".join(words)


def table(rows):
    columns, tiles = columns_of(rows), any("tiles" in row for row in rows)
    unit = "GB/s" if any("gb_per_s" in rate for row in rows for rate in row.get("rates", {}).values()) else "TFLOP/s"
    heads = ["#", "problem", "of"]
    for way in ratios.WAYS:
        heads += [f"{way} us", unit] + [NAMES[peer] for found, peer in columns if found == way]
    heads += (["best tile"] if tiles else []) + ["note"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in rows:
        cells = [str(row["number"]), drawing.title(row), row["source"]]
        for way in ratios.WAYS:
            times = row["timings"][-1]["times"].get(way, {}) if row["timings"] else {}
            rate = row.get("rates", {}).get(way, {})
            cells += [number(times["tilejit"]["median_us"], 1) if "tilejit" in times else "-", number(next(iter(rate.values()), None), 0)]
            cells += [ratio_cell(row, found, peer) for found, peer in columns if found == way]
        if tiles:
            cells.append(number(row["tiles"]["slower"]) if "slower" in row.get("tiles", {}) else "-")
        lines.append("| " + " | ".join(cells + [note(row)]) + " |")
    return lines


def correctness_lines(section):
    """Random shapes that were checked besides."""
    errors = ", ".join(f"{name} {error:.2e} (limit {section['limits'][name]:.0e})" for name, error in section["worst_error"].items())
    return [f"Random shapes against f64: {section['cases']} (seed {section['seed']}), {section['failed']} failed. Worst relative error: {errors}. "
            "Outputs poisoned, guard bands checked." + chunk_check.largest_text(section)]


def cold_lines(section):
    if "error" in section:
        return [f"Cold starts were not measured: {section['error']}"]
    lines = ["Cold starts, CUDA's own start excluded; milliseconds, medians:", "",
             "| process | origin | prepare | schedule | source | compiler | load | NVRTC opened |", "|---|---|---|---|---|---|---|---|"]
    for name, r in section.items():
        lines.append(f"| {name} | {', '.join(r['origin'])} | {r['wall_ms']:.1f} | {r['schedule_ms']:.1f} | {r['codegen_ms']:.1f} | {r['compile_ms']:.1f} | "
                     f"{r['load_ms']:.1f} | {'yes' if r['nvrtc_opened'] else 'no'} |")
    return lines


def more_lines(document):
    lines = []
    for name, of in (("correctness", correctness_lines), ("cold", cold_lines)):
        if name in document:
            lines += ["", *of(document[name])]
    return lines


def commands(document):
    return list(dict.fromkeys(part["command"] for part in document["parts"]))


def short(document):
    """The summary and the worst ten, as they are printed at the end."""
    rows = document["rows"]
    lines = summary_lines(document) if rows or document["missing"] else []
    if len(rows) > 10:
        lines += ["", "The worst ten:", ""] + table(ratios.worst_rows(rows))
    return lines + more_lines(document)


def whole(document):
    """Everything but the heading."""
    rows = document["rows"]
    lines = [machine_text(document["machine"]), "", *[f"    {command}" for command in commands(document)], "", how_text(document), "", *short(document)]
    if not rows:
        return lines
    lines += ["", "<details><summary>All rows</summary>", "", *table(rows[:MOST_ROWS])]
    if len(rows) > MOST_ROWS:
        lines += ["", f"{len(rows) - MOST_ROWS} more rows are in the JSON document alone."]
    lines += ["", "A second figure in brackets is the first timing." + (" \"best tile\": the predicted tile's time over the best one's." if any("tiles" in row for row in rows) else "")]
    return lines + ["", "</details>"]


def markdown(document):
    return "\n".join([f"# {document['date']}: {title(document)}", "", *whole(document), ""])
