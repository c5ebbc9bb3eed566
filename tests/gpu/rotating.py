"""Times of calls whose tensors rotate, so that L2 holds none of them when its turn comes. Decides nothing about problems."""
import torch


def per_call(calls, rounds=9):
    """Microseconds of one call: the median over replays of a CUDA graph that has each of these calls once."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    times = []
    for _ in range(rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        graph.replay()
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / len(calls))
    return sorted(times)[rounds // 2]
