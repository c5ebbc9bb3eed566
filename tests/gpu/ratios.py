"""Speed over peers: what a timing's ratios are, when a problem is timed again, and what a table of them comes to.

Decides nothing about how times are taken. A ratio is the peer's median over ours of one run: above 1 ours is faster. Invariant: a figure
that was behind stays in the row beside the one that was taken after it.
"""
import math
import statistics

BEHIND = 0.93  # below it a problem is timed again
WAYS = {"single": "single calls", "graph": "graph replays"}


def of_times(times, peers):
    """way -> candidate -> {"median_us": ...} as way -> peer -> ratio."""
    return {way: {name: by_name[name]["median_us"] / by_name["tilejit"]["median_us"] for name in peers if name in by_name} if "tilejit" in by_name else {}
            for way, by_name in times.items()}


def least(timing):
    """The smallest ratio of a timing; None without any."""
    return min((ratio for by_peer in timing["ratios"].values() for ratio in by_peer.values()), default=None)


def timed(time_once, peers):
    """Timings of one problem, each with its ratios: one, or two where the first had a ratio below BEHIND."""
    timings = []
    while len(timings) < 2:
        times = time_once()
        timings.append({"times": times, "ratios": of_times(times, peers)})
        smallest = least(timings[-1])
        if smallest is None or smallest >= BEHIND:
            break
    return timings


def geometric_mean(values):
    values = list(values)
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else None


def percentile(values, percent):
    """Between the two nearest by their distance, as numpy.percentile does it."""
    values = sorted(values)
    if not values:
        return None
    at = (len(values) - 1) * percent / 100
    low = math.floor(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (at - low)


def summary(rows):
    """(way, peer) -> what the ratios come to. The later timing of a row counts; "first" is the mean of the first ones."""
    found = {}
    for row in rows:
        for way, by_peer in row["timings"][-1]["ratios"].items() if row["timings"] else ():
            for peer, ratio in by_peer.items():
                found.setdefault((way, peer), []).append((ratio, row))
    result = []
    for way in WAYS:
        for peer in dict.fromkeys(peer for found_way, peer in found if found_way == way):
            pairs = found[way, peer]
            values = [ratio for ratio, _ in pairs]
            worst = min(pairs, key=lambda pair: pair[0])
            first = [row["timings"][0]["ratios"][way][peer] for _, row in pairs if peer in row["timings"][0]["ratios"].get(way, {})]
            result.append({"way": way, "peer": peer, "problems": len(values), "geometric_mean": geometric_mean(values), "percentile_5": percentile(values, 5),
                           "worst": worst[0], "worst_number": worst[1]["number"], "median": statistics.median(values),
                           "below": sum(value < BEHIND for value in values), "first_geometric_mean": geometric_mean(first)})
    return result


def worst_rows(rows, count=10):
    """Rows with the smallest ratio, smallest first. Wrong rows stand before all others, then refused ones; rows without any peer come last."""
    def key(row):
        smallest = least(row["timings"][-1]) if row["timings"] else None
        kind = 0 if row.get("wrong") else 1 if "tilejit" in row["refused"] else 3 if smallest is None else 2
        return (kind, smallest or 0.0, row["number"])
    return sorted(rows, key=key)[:count]


def tiles_summary(rows):
    """By how much the predicted tile is slower than the best one; None without such rows."""
    pairs = [(row["tiles"]["slower"], row) for row in rows if "slower" in row.get("tiles", {})]
    if not pairs:
        return None
    values = [slower for slower, _ in pairs]
    first = [row["tiles"].get("first_slower", slower) for slower, row in pairs]  # as the least of all was found
    worst = max(pairs, key=lambda pair: pair[0])
    best = [ratio * slower for slower, row in pairs if row["timings"] for ratio in [row["timings"][-1]["ratios"].get("graph", {}).get("cublas")] if ratio]
    return {"problems": len(values), "geometric_mean": geometric_mean(values), "percentile_95": percentile(values, 95), "worst": worst[0],
            "worst_number": worst[1]["number"], "first_geometric_mean": geometric_mean(first), "again": any("first_slower" in row["tiles"] for _, row in pairs),
            "same": sum(row["tiles"]["predicted"] == row["tiles"]["best"] for _, row in pairs),
            "best_over_cublas": geometric_mean(best)}
