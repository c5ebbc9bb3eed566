"""PyTorch's attention, timed and checked: the rows that 04_fmha_ladder is compared with. It writes one line of JSON for each row and length.

    python3 torch_rows.py --rows sdpa,cudnn,flash --seq-lens 1024,4096 --batch 4 --heads 32 --head-dim 128 --dtype f16 --causal true

Without torch it says so in a line and ends with 0: the ladder goes on without these rows."""
import argparse
import contextlib
import json
import math
import statistics
import time

LEAST_TIMED_MS = 1  # calls that are shorter are timed several in a row
CHECKED_ROWS = 256
CLOSE = 1e-2  # an element is close within CLOSE + CLOSE of the value


def options():
    parser = argparse.ArgumentParser()
    for name, default in (("--rows", "sdpa,cudnn,flash"), ("--seq-lens", "1024"), ("--dtype", "f16"), ("--causal", "true"), ("--check", "true")):
        parser.add_argument(name, default=default)
    for name, default in (("--batch", 4), ("--heads", 32), ("--head-dim", 128), ("--iterations", 20), ("--settle", 20), ("--seed", 1)):
        parser.add_argument(name, type=int, default=default)
    return parser.parse_args()


def write(**line):
    print(json.dumps(line, allow_nan=False), flush=True)


class Problem:
    def __init__(self, torch, given, seq_len):
        self.torch, self.given = torch, given
        self.gpu = torch.cuda.is_available()
        device, dtype = "cuda" if self.gpu else "cpu", {"f16": torch.float16, "bf16": torch.bfloat16}[given.dtype]
        generator = torch.Generator(device).manual_seed(given.seed)
        shape = (given.batch, given.heads, seq_len, given.head_dim)
        self.q, self.k, self.v = (torch.randn(shape, generator=generator, device=device).to(dtype) for _ in range(3))

    def call(self):
        return self.torch.nn.functional.scaled_dot_product_attention(self.q, self.k, self.v, is_causal=self.given.causal == "true")

    def error(self, o):
        """Of some rows against f64: ||o - ref|| / ||ref||, None where that is no number; and elements that are not close."""
        torch, (batch, heads, seq_len, width) = self.torch, self.q.shape
        wrong, whole, apart = 0.0, 0.0, 0
        rows = torch.randperm(batch * heads * seq_len, generator=torch.Generator().manual_seed(self.given.seed))[:CHECKED_ROWS].tolist()
        for row in rows:
            b, h, s = row // seq_len // heads, row // seq_len % heads, row % seq_len
            keys = s + 1 if self.given.causal == "true" else seq_len
            scores = self.k[b, h, :keys].double() @ self.q[b, h, s].double() * width ** -0.5
            wanted = torch.softmax(scores, 0) @ self.v[b, h, :keys].double()
            given = o[b, h, s].double()
            wrong += float(((given - wanted) ** 2).sum())
            apart += given.numel() - int(torch.isclose(given, wanted, rtol=CLOSE, atol=CLOSE).sum())
            whole += float((wanted ** 2).sum())
        error = (wrong / whole) ** 0.5
        return {"error": error if math.isfinite(error) else None, "apart": apart,  # JSON has no NaN
                "rows_compared": len(rows), "rows_total": batch * heads * seq_len}

    def ms(self, work):
        if not self.gpu:
            begin = time.perf_counter()
            work()
            return (time.perf_counter() - begin) * 1e3
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)

    def median(self, work, calls):
        """Of one call, in milliseconds; the device is warm."""
        ran = 0
        while ran < self.given.settle:
            ran += max(1e-3, self.ms(work))
        return statistics.median(self.ms(work) for _ in range(self.given.iterations)) / calls

    def times(self):
        torch = self.torch
        self.call()
        calls = max(1, int(LEAST_TIMED_MS / max(1e-3, self.ms(self.call)) + 1)) if self.gpu else 1

        def several():
            for _ in range(calls):
                self.call()
        found = {"latency_ms": self.median(several, calls)}
        if self.gpu:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                several()
            found["graph_ms"] = self.median(graph.replay, calls)
        return found


def backend(torch, row):
    """The context that holds SDPA to a backend."""
    if row == "sdpa":
        return contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel
    return sdpa_kernel([{"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}[row]])


def main():
    given = options()
    try:
        import torch
    except Exception as error:  # a torch that is there may lack a library
        write(all_missing=f"no torch: {error}")
        return
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "the CPU"
    for seq_len in map(int, given.seq_lens.split(",")):
        for row in given.rows.split(","):
            line = {"row": row, "seq_len": seq_len, "by": f"PyTorch {torch.__version__} on {where}"}
            try:
                problem = Problem(torch, given, seq_len)
                with torch.no_grad(), backend(torch, row):
                    o = problem.call()
                    line.update(problem.times())
                if given.check == "true":
                    line.update(problem.error(o))
            except Exception as error:
                line["missing"] = (str(error).splitlines() or [type(error).__name__])[0]
            write(**line)


if __name__ == "__main__":
    main()
