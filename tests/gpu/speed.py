"""One problem beside its peers: checked, timed both ways, timed again where it is behind; then all tiles of a product.

Decides the order of these and what a row of a table holds. The candidates are the op's (gemm_speed.py, fmha_speed.py, chunk_speed.py); timing.py decides how
a time is taken. Invariant: every row has been checked before it was timed, and what could not be done says why.
"""
import math
import time

import binding
import chunk_speed
import fa3_peer
import fmha_speed
import gemm_speed
import ratios
import timing
import tuning

REFUSALS = (RuntimeError, TypeError, binding.TilejitError, fa3_peer.Fa3Error)  # TypeError: a keyword that this PyTorch does not know
WORKS = {"gemm": gemm_speed.Work, "fmha": fmha_speed.Work, "chunk_o": chunk_speed.Work}
PEERS = {"gemm": gemm_speed.PEERS, "fmha": fmha_speed.PEERS, "chunk_o": chunk_speed.PEERS}
MOVED = 1e-6        # between the first and the last result of equal inputs, relative
LONG_FLOPS = 2e12   # of a product whose tiles are timed in fewer rounds
SHORT_ROUNDS = 3
AGAIN_ROUNDS = 20   # of two tiles by themselves
LEAST_LEFT = 5.0    # seconds that the next problem needs before any was timed


class Limit:
    """The time that a run may take. `now` is a clock in seconds."""

    def __init__(self, seconds, now=time.monotonic):
        self.seconds, self.now = seconds, now
        self.begin, self.longest, self.last = now(), 0.0, now()

    def left(self):
        return math.inf if self.seconds is None else self.seconds - (self.now() - self.begin)

    def enough(self):
        """Would one more problem end in time, were it as long as the longest so far, and half as long again?"""
        return self.left() > max(LEAST_LEFT, 1.5 * self.longest)

    def start(self):
        self.last = self.now()

    def stop(self):
        self.longest = max(self.longest, self.now() - self.last)


def time_once(torch, work, options):
    """way -> candidate -> figures."""
    single = timing.time_side_by_side(torch, work.candidates, options.rounds, options.runs)
    graphs, refused = timing.graphs_of(torch, work.candidates, work.calls, REFUSALS)
    replays = timing.time_graphs(torch, graphs, work.calls, options.rounds, options.runs)
    work.refused.update({name: why for name, why in refused.items() if name not in work.refused})
    for name, (other, ratio) in getattr(work, "by_ratio", {}).items():
        if other in replays:
            replays[name] = [time * ratio for time in replays[other]]
    return {"single": {name: timing.summary(times) for name, times in single.items()}, "graph": {name: timing.summary(times) for name, times in replays.items()}}


def rates(row, work):
    """TFLOP/s of our later figures, or GB/s when bytes are what counts."""
    found = {}
    for way, by_name in row["timings"][-1]["times"].items():
        if "tilejit" in by_name:
            us = by_name["tilejit"]["median_us"]
            found[way] = {"tflops": work.flops / us * 1e-6} if hasattr(work, "flops") else {"gb_per_s": work.bytes / us * 1e-3}
    return found


def time_tiles(library, cache_dir, problem, limit):
    """Every tile that serves the product, timed by tj-warm --tune: how much slower the predicted one is than the best.

    The least of 200 medians is less than what its tile takes: that is why it is the least. So the two are timed once more, by themselves."""
    shape, words = (problem["m"], problem["n"], problem["k"]), gemm_speed.tune_words(problem)
    rounds = SHORT_ROUNDS if gemm_speed.flops_of(problem) > LONG_FLOPS else None

    def timed(**asked):
        try:
            return tuning.tune(library, cache_dir, problem["dtype"], [shape], options=words, seconds=limit.left(), **asked)["problems"][0]
        except tuning.ToolError as error:
            return {"ok": False, "error": str(error)}
    found = tiles_of(timed(rounds=rounds))
    if found.get("predicted") == found.get("best"):
        return found
    again = timed(rounds=rounds or AGAIN_ROUNDS, only=[found["predicted"], found["best"]])
    by_name = {kernel["name"]: kernel["measured_us"] for kernel in again.get("kernels", []) if "measured_us" in kernel}
    if by_name.keys() != {found["predicted"], found["best"]}:
        return {**found, "not_again": again.get("error", "one of the two was refused")}
    us, best_us = by_name[found["predicted"]], by_name[found["best"]]
    return {**found, "first_slower": found["slower"], "predicted_us": us, "best_us": best_us, "slower": us / best_us}


def tiles_of(found):
    """One problem of the tool's document."""
    if not found["ok"]:
        return {"error": found.get("error", "the choice was not kept")}
    timed = [kernel for kernel in found["kernels"] if "measured_us" in kernel]
    best = min(timed, key=lambda kernel: kernel["measured_us"])
    if "measured_us" not in found["kernels"][0]:
        return {"error": f"{found['kernels'][0]['name']}, which is predicted to be the best, was refused: {found['kernels'][0]['refused']}"}
    return {"tiles": len(timed), "predicted": found["kernels"][0]["name"], "best": best["name"], "predicted_us": found["kernels"][0]["measured_us"],
            "best_us": best["measured_us"], "slower": found["kernels"][0]["measured_us"] / best["measured_us"]}


def measure(torch, runtime, device, problem, options, limit):
    """A row: the problem, its check, its timings, its tiles."""
    row = dict(problem)
    work = WORKS[problem["op"]](torch, runtime, binding, device, problem, options)
    if "tilejit" in work.candidates:
        try:
            row["check"] = work.check()
            row.update(work.describe())
        except binding.TilejitError as error:
            work.refused["tilejit"] = error.message
            del work.candidates["tilejit"]
    row["timings"], row["refused"] = [], work.refused
    if "tilejit" not in work.candidates:
        return row
    row["timings"] = ratios.timed(lambda: time_once(torch, work, options), work.peers)
    row["rates"] = rates(row, work)
    row["check"]["moved"] = work.moved()
    row["wrong"] = not (row["check"]["ok"] and row["check"]["moved"] <= MOVED)
    if options.tiles:
        row["tiles"] = time_tiles(options.library, options.cache_dir, problem, limit)
    return row


def line(row, title):
    """A row as it is printed as soon as it is there."""
    text = f"{row['number']:4}  {title}"
    if row["timings"]:
        later = row["timings"][-1]
        for way in ratios.WAYS:
            if "tilejit" in later["times"][way]:
                text += f"  {way} {later['times'][way]['tilejit']['median_us']:.1f} us" + "".join(f" x{ratio:.3f} {peer}" for peer, ratio in later["ratios"][way].items())
    if len(row["timings"]) > 1:
        text += f"  (first {ratios.least(row['timings'][0]):.3f})"
    if "slower" in row.get("tiles", {}):
        text += f"  best tile x{row['tiles']['slower']:.3f}"
    text += f"  no tiles: {row['tiles']['error']}" if "error" in row.get("tiles", {}) else ""
    text += "".join(f"  {name} refused: {why}" for name, why in row["refused"].items())
    return text + (f"  WRONG: {row['check']}" if row.get("wrong") else "")
