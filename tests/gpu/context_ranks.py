"""The ranks of a run of context_fmha.py: how they meet and agree, and what happens when one of them comes late or never."""
import contextlib
import datetime
import os
import random
import sys
import time

from python_calls import open_package, skip

MOST_WAIT = datetime.timedelta(minutes=3)  # for a rank that makes kernels while the others have none to make


def open_ranks(options):
    """(this process's rank, the seed that all have). Where GPUs, ranks or PyTorch are missing the run is skipped."""
    try:
        import torch
    except ImportError as error:
        skip(f"{error}; PyTorch is needed")
    if "RANK" not in os.environ or torch.cuda.device_count() < int(os.environ["WORLD_SIZE"]):
        skip("a GPU for each rank is needed, and torch.distributed.run, which starts the ranks")
    tilejit = open_package(options.library)
    from tilejit import dist
    try:
        ranks = Ranks(torch, tilejit, dist, options.transport)
    except tilejit.Error as error:  # which all ranks have
        sys.exit(f"{os.path.basename(sys.argv[0])}: {error}")
    seed = [options.seed or random.SystemRandom().randrange(1, 2**31)]
    torch.distributed.broadcast_object_list(seed, 0)
    ranks.say(f"seed {seed[0]}")
    return ranks, seed[0]


class Ranks:
    """The modules, the group and the place that a rank of the run has."""

    def __init__(self, torch, tilejit, dist, transport):
        self.torch, self.tilejit, self.dist, self.device, self.transport = torch, tilejit, dist, "cuda", transport
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", self.rank)))
        torch.distributed.init_process_group("nccl")
        self.host = torch.distributed.new_group(backend="gloo", timeout=MOST_WAIT)  # which needs no GPU: that may wait for a rank for ever
        self.group = self.made("auto")

    @contextlib.contextmanager
    def variables(self, **values):
        """Variables of the environment, which groups and runtimes read when they are made."""
        before = {name: os.environ.get(name) for name in values}
        os.environ.update(values)
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})

    def made(self, order, transport=None, **more):
        with self.variables(TJ_DIST_TRANSPORT=transport or self.transport, TJ_DIST_ORDER=order):
            return self.dist.Group.of_torch(**more)

    def agree(self, text, work):
        """What work() gives; where it fails on a rank, the run ends on all, with status 1."""
        made = error = None
        try:
            made = work()
        except Exception as found:
            error = found
            print(f"rank {self.rank}: {text}: {type(error).__name__}: {error}", flush=True)
        if self.any(error is not None):
            sys.stdout.flush()
            os._exit(1)  # the end of the interpreter would wait for the GPU
        return made

    def any(self, failed):
        """Has a rank failed? One that does not say in time has."""
        number = self.torch.tensor([int(failed)])
        try:
            self.torch.distributed.all_reduce(number, self.torch.distributed.ReduceOp.MAX, group=self.host)
        except RuntimeError as error:
            print(f"rank {self.rank}: other ranks are gone or wait: {error}", flush=True)
            return True
        return bool(number.item())

    def call(self, text, name, tensors, **options):
        """A call of the group. Kernels are made first, which tells what is refused before anything is sent."""
        self.agree(text, lambda: self.group.prepare(name, *tensors, **options))
        return self.agree(text, lambda: getattr(self.group, name)(*tensors, **options))

    def most(self, value):
        number = self.torch.tensor(float(value), dtype=self.torch.float64, device=self.device)
        self.torch.distributed.all_reduce(number, self.torch.distributed.ReduceOp.MAX)
        return number.item()

    def say(self, text):
        if self.rank == 0:
            print(text, flush=True)

    def normal(self, seed, *shape, dtype):
        generator = self.torch.Generator(device=self.device).manual_seed(seed)
        return self.torch.randn(shape, generator=generator, device=self.device, dtype=self.torch.float32).to(dtype)

    def nan(self, shape, dtype):
        return self.torch.full(shape, float("nan"), device=self.device, dtype=dtype)

    def part(self, whole, rows, by_head):
        own = whole[:, rows]
        return own.transpose(1, 2).contiguous() if by_head else own.contiguous()


def check_sleepy(ranks, count):
    """(what was wrong, or all, infinity or 0): calls to which a rank comes late, on the host or on its device, give the bits of the first one."""
    torch, draw = ranks.torch, random.Random(count)
    parts = [ranks.normal(ranks.rank * 3 + n, 1, heads, 512, 128, dtype=torch.float16) for n, heads in enumerate((8, 2, 2))]
    wanted, wrong, begun = ranks.call("sleepy", "fmha", parts, causal=True), 0, time.monotonic()
    busy = torch.ones((2048, 2048), device=ranks.device)
    for _ in range(count):
        late, on_host, times = draw.randrange(ranks.size), draw.random() < 0.2, draw.choice((0, 0, 1, 8))
        if late == ranks.rank and on_host:
            time.sleep(0.001 * times)
        elif late == ranks.rank:
            for _ in range(times):
                torch.mm(busy, busy)
        wrong += not torch.equal(ranks.group.fmha(*parts, causal=True), wanted)
    ranks.agree("sleepy", ranks.group.check)
    return f"{count} calls, {wrong} of other bits, {time.monotonic() - begun:.1f} s", float("inf") if wrong else 0.0


def check_never(ranks, _):
    """(what was said, infinity or 0): a rank does not come to a call. The others' streams go on, name it, and their devices work.
    The rank that comes late is told, too, and no rank waits for the group's end."""
    torch, limit = ranks.torch, 5
    with ranks.variables(TJ_WAIT_LIMIT=str(limit)):
        group = ranks.agree("never", lambda: ranks.made("auto", runtime=ranks.tilejit.Runtime()))
    parts = [ranks.normal(n, 1, heads, 512, 128, dtype=torch.float16) for n, heads in enumerate((8, 2, 2))]
    ranks.agree("never", lambda: group.fmha(*parts, causal=True))
    torch.cuda.synchronize()
    if group.description().startswith("messages"):
        return f"not tried: {group.description()}", 0.0 if ranks.transport == "nccl" else float("inf")
    said, good = "", True
    for late in (False, True):
        begun = time.monotonic()
        if late == (ranks.rank == 0):
            ranks.agree("never", lambda: (group.fmha(*parts, causal=True), torch.cuda.synchronize()))
            waited = time.monotonic() - begun
            try:
                group.check()
            except ranks.tilejit.Error as error:
                said = str(error)
            good = "rank 0 did not bring segment" in said and waited < 4 * limit
        else:
            ranks.agree("never", lambda: None)
    begun = time.monotonic()
    del group
    good = good and time.monotonic() - begun < 4 * limit
    product = torch.mm(torch.ones((64, 64), device=ranks.device), torch.ones((64, 64), device=ranks.device))
    good = good and bool((product == 64).all())
    told = [None] * ranks.size
    torch.distributed.all_gather_object(told, said)
    return f"a rank that never comes: {told[-1]}", 0.0 if good else float("inf")
