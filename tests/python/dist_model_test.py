"""Protects groups of ranks from Python: attention over a split sequence on the CPU model, in each split and layout, kernels made ready, torch's
process groups, errors by name, and samples/10_context_parallel as its user runs it."""
import contextlib
import datetime
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

import here
import with_torch

tilejit, numpy = here.tilejit, here.numpy
from tilejit import dist  # noqa: E402

torch = with_torch.torch
SAMPLE = os.path.join(here.ROOT, "samples", "10_context_parallel", "main.py")
NVLS = "NCCL_NVLS_ENABLE"
WAIT = datetime.timedelta(seconds=120)  # of torch for a rank; only a failure takes it
# The second rank of test_process_group_where_a_rank_fails. It writes what each of its two calls said.
SECOND_RANK = """
import datetime, os, sys
import here, with_torch
from tilejit import dist
torch = with_torch.torch.distributed
torch.init_process_group("gloo", init_method=sys.argv[1], rank=1, world_size=2, timeout=datetime.timedelta(seconds=120))
for value in (None, "0"):
    os.environ.pop("NCCL_NVLS_ENABLE", None)
    if value:
        os.environ["NCCL_NVLS_ENABLE"] = value
    try:
        dist.Group.of_torch(device="cpu")
    except here.tilejit.Error as error:
        print(error)
torch.destroy_process_group()
"""


def together(members, work):
    """work(member) in a thread for each; their results, or the error of one, a failed assertion among them."""
    results, errors = {}, []

    def run(member):
        try:
            results[member.rank] = work(member)
        except BaseException as error:  # which a thread would only print
            errors.append(error)

    threads = [threading.Thread(target=run, args=(member,)) for member in members]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if errors:
        raise errors[0]
    if len(results) != len(members):
        raise AssertionError(f"{len(results)} results of {len(members)} members")
    return results


def sample():
    """samples/10_context_parallel as a module."""
    spec = importlib.util.spec_from_file_location("context_parallel", SAMPLE)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@unittest.skipUnless(numpy, here.NO_NUMPY)
class Split(unittest.TestCase):
    def setUp(self):
        self.runtime = tilejit.Runtime(target="model:sm_90a", log_level="error")
        self.q = numpy.random.default_rng(3).standard_normal((1, 2, 96, 64)).astype(numpy.float16)

    def test_each_split_and_layout(self):
        o, lse = tilejit.fmha(self.q, self.q, self.q, causal=True, return_lse=True, runtime=self.runtime)
        rows = {"contiguous": [range(0, 48), range(48, 96)], "zigzag": [[*range(0, 24), *range(72, 96)], range(24, 72)],
                "striped": [range(0, 96, 2), range(1, 96, 2)]}
        for split, own in rows.items():
            def work(member):
                part = numpy.ascontiguousarray(self.q[:, :, list(own[member.rank])])
                if split != "zigzag":
                    return member.fmha(part, part, part, causal=True, split=split, return_lse=True)
                part = numpy.ascontiguousarray(part.swapaxes(1, 2))
                found = member.fmha(part, part, part, causal=True, layout="bshd", return_lse=True)
                return found[0].swapaxes(1, 2), found[1]
            for rank, found in together(dist.Group.on_model(2, runtime=self.runtime), work).items():
                numpy.testing.assert_allclose(found[0].astype(float), o[:, :, list(own[rank])].astype(float), atol=2e-3)
                numpy.testing.assert_allclose(found[1], lse[:, :, list(own[rank])], atol=2e-3)

    def test_lengths_window_and_out(self):
        o = tilejit.fmha(self.q, self.q, self.q, causal=True, window=(20, -1), scale=0.1, runtime=self.runtime)
        ends = (0, 60, 60, 96)

        def work(member):
            part = numpy.ascontiguousarray(self.q[:, :, ends[member.rank]:ends[member.rank + 1]])
            out = numpy.full_like(part, numpy.nan)
            found = member.fmha(part, part, part, causal=True, split="contiguous", lengths=(60, 0, 36), window_left=20, scale=0.1, out=out)
            self.assertIs(found, out)
            return out

        for rank, found in together(dist.Group.on_model(3, runtime=self.runtime), work).items():
            numpy.testing.assert_allclose(found.astype(float), o[:, :, ends[rank]:ends[rank + 1]].astype(float), atol=2e-3)

    def test_products(self):
        random = numpy.random.default_rng(4)
        a, b = (random.standard_normal(shape).astype(numpy.float16) for shape in ((80, 64), (40, 64)))
        wanted = a.astype(float) @ b.astype(float).T
        ends = (0, 50, 80)

        def work(member):
            own = slice(ends[member.rank], ends[member.rank + 1])
            depth = slice(32 * member.rank, 32 * member.rank + 32)
            parts = [numpy.ascontiguousarray(each[:, depth]) for each in (a, b)]
            return (member.all_gather_gemm(numpy.ascontiguousarray(a[own]), b, lengths=(50, 30), activation="relu"),
                    member.gemm_reduce_scatter(*parts, lengths=(50, 30), alpha=2, dtype="f32"), member.gemm_reduce_scatter(*parts))

        for rank, found in together(dist.Group.on_model(2, runtime=self.runtime), work).items():
            numpy.testing.assert_allclose(found[0].astype(float), wanted.clip(0), atol=0.05)
            numpy.testing.assert_allclose(found[1], 2 * wanted[ends[rank]:ends[rank + 1]], atol=1e-3)
            numpy.testing.assert_allclose(found[2].astype(float), wanted[40 * rank:40 * rank + 40], atol=0.05)

    def test_heads(self):
        """Rows of sequences in one list, and a window on both sides: what an exchange of keys does not serve."""
        begins = numpy.array([0, 40, 96], numpy.int32)
        rows = numpy.ascontiguousarray(self.q[0].swapaxes(0, 1))
        o, lse = tilejit.fmha(rows, rows, rows, cu_seqlens_q=begins, cu_seqlens_k=begins, causal=True, return_lse=True, runtime=self.runtime)
        window = tilejit.fmha(self.q, self.q, self.q, window=(9, 20), runtime=self.runtime)

        def work(member):
            part = numpy.ascontiguousarray(self.q[:, :, member.rank::2])
            found = member.fmha(part, part, part, causal=True, split="striped", cu_seqlens=begins, return_lse=True)
            return (*found, member.fmha(part, part, part, split="striped", window_left=9, window_right=20, exchange="heads"))

        for rank, found in together(dist.Group.on_model(2, runtime=self.runtime), work).items():
            numpy.testing.assert_array_equal(found[0][0], o.swapaxes(0, 1)[:, rank::2])
            numpy.testing.assert_array_equal(found[1][0], lse[:, rank::2])
            numpy.testing.assert_array_equal(found[2], window[:, :, rank::2])

    def test_decode(self):
        """Pages of a cache, of which ranks have those of even and of odd numbers; and rows of a tensor, one rank without any."""
        random = numpy.random.default_rng(5)
        q, pages = random.standard_normal((2, 2, 64)).astype(numpy.float16), random.standard_normal((6, 16, 1, 64)).astype(numpy.float16)
        begins, table, used = numpy.arange(3, dtype=numpy.int32), numpy.arange(6, dtype=numpy.int32).reshape(2, 3)[:, ::-1], (37, 16)
        o, lse = tilejit.fmha(q, pages, pages, cu_seqlens_q=begins, block_table=numpy.ascontiguousarray(table), seqused_k=numpy.array(used, numpy.int32),
                              return_lse=True, runtime=self.runtime)
        dense = tilejit.fmha(self.q[:, :, :1], self.q, self.q, runtime=self.runtime)

        def work(member):
            own = table[:, member.rank::2]
            counts = [sum(min(16, n - 16 * page) for page in range(member.rank, -(-n // 16), 2)) for n in used]
            found = member.decode(q, pages, pages, cu_seqlens_q=begins, block_table=numpy.ascontiguousarray(own),
                                  seqused_k=numpy.array(counts, numpy.int32), return_lse=True)
            keys = self.q[:, :, :96 * (1 - member.rank)]
            return (*found, member.decode(self.q[:, :, :1], keys, keys, causal=True))

        found = together(dist.Group.on_model(2, runtime=self.runtime), work)
        for mine, other, wanted in zip(found[0], found[1], (o, lse, dense)):
            numpy.testing.assert_array_equal(mine, other)
            numpy.testing.assert_allclose(mine.astype(float), wanted.astype(float), atol=2e-3)

    def test_f32_addend(self):
        """A c of f32 beside a d of f16, which sums of two ranks are finished by."""
        a, c = self.q[0, 0], numpy.random.default_rng(6).standard_normal((96, 96)).astype(numpy.float32)
        d = self.runtime.gemm(a, a, c=c, beta=0.5, dtype="f16")
        self.assertEqual(d.dtype, numpy.float16)
        numpy.testing.assert_allclose(d.astype(float), a.astype(float) @ a.astype(float).T + 0.5 * c, atol=0.06)

    def test_together_tells_of_each_failure(self):
        members = dist.Group.on_model(2, runtime=self.runtime)
        with self.assertRaises(AssertionError):
            together(members, lambda member: self.assertEqual(member.rank, 0))
        with self.assertRaisesRegex(AssertionError, "1 results of 2 members"):
            together([members[0], members[0]], lambda member: member.rank)

    def test_prepare(self):
        """Each rank by itself, as nothing is sent; the calls behind it load nothing."""
        q, b = numpy.ones((1, 2, 48, 64), numpy.float16), numpy.ones((40, 64), numpy.float16)
        part, a = tilejit.Spec(q.shape), tilejit.Spec((24, 64))
        members = dist.Group.on_model(2, runtime=self.runtime)
        for member in members:
            for split in ("zigzag", "striped"):
                member.prepare("fmha", part, q, part, causal=True, split=split, lengths=(48, 48), return_lse=True)
            member.prepare("decode", tilejit.Spec((1, 2, 1, 64)), part, part)
            member.prepare("all_gather_gemm", a, b, bias=numpy.ones(40, numpy.float16))
            member.prepare("gemm_reduce_scatter", a, b, activation="relu")
        before = self.runtime.counters()["loads"]
        self.assertGreater(before, 3)

        def work(member):
            for split in ("zigzag", "striped"):
                member.fmha(q, q, q, causal=True, split=split, return_lse=True)
            member.decode(q[:, :, :1], q, q)
            d = member.all_gather_gemm(b[:24], b, bias=numpy.ones(40, numpy.float16))
            return d, member.gemm_reduce_scatter(b[:24], b, activation="relu")

        for d, sums in together(members, work).values():
            self.assertEqual((d.shape, float(d[0, 0]), sums.shape, float(sums[0, 0])), ((48, 40), 65.0, (12, 40), 128.0))
        self.assertEqual(self.runtime.counters()["loads"], before)

    def test_errors_name_the_argument(self):
        member = dist.Group.on_model(1, runtime=self.runtime)[0]
        member.check()
        self.assertEqual((member.rank, member.size), (0, 1))
        for part, call in (("exchange is 'rows'; allowed: auto, keys, heads", lambda: member.fmha(self.q, self.q, self.q, exchange="rows")),
                           ("split is 'ring'; allowed: contiguous, zigzag, striped", lambda: member.fmha(self.q, self.q, self.q, split="ring")),
                           ("lengths has 2 numbers", lambda: member.fmha(self.q, self.q, self.q, lengths=(96, 0))),
                           ("window_left is", lambda: member.fmha(self.q, self.q, self.q, window_left="x")),
                           ("window.left is 3 without causal", lambda: member.fmha(self.q, self.q, self.q, window_left=3, exchange="keys")),
                           ("causal is true; allowed: false, or one query a sequence", lambda: member.decode(self.q, self.q, self.q, causal=True)),
                           ("q has 3 dimensions", lambda: member.fmha(self.q[0], self.q, self.q)),
                           ("id is 'x'; allowed: the 128 bytes of unique_id()", lambda: dist.Group("x", 0, 1, "cpu")),
                           ("a.shape[0] is 96; allowed: the rows of d on all ranks, 9",
                            lambda: member.gemm_reduce_scatter(self.q[0, 0], self.q[0, 0], lengths=(9,))),
                           ("lengths has 2 numbers", lambda: member.gemm_reduce_scatter(self.q[0, 0], self.q[0, 0], lengths=(9, 9))),
                           ("lengths has 2 numbers; allowed: one a rank, 1, or None",
                            lambda: member.all_gather_gemm(self.q[0, 0], self.q[0, 0], lengths=(9, 9))),
                           ("lengths has 0 numbers", lambda: member.all_gather_gemm(self.q[0, 0], self.q[0, 0], lengths=())),
                           ("lengths is -1; allowed: a whole number from 0 to 1073741824",
                            lambda: member.all_gather_gemm(self.q[0, 0], self.q[0, 0], lengths=(-1,))),
                           (f"lengths is {2**62}; allowed", lambda: member.all_gather_gemm(self.q[0, 0], self.q[0, 0], lengths=(2**62,))),
                           ("lengths is -5; allowed", lambda: member.gemm_reduce_scatter(self.q[0, 0], self.q[0, 0], lengths=(-5,))),
                           (f"lengths is {2**30 + 1}; allowed", lambda: member.fmha(self.q, self.q, self.q, lengths=(2**30 + 1,))),
                           ("call is 'gemm'; allowed: fmha, decode, all_gather_gemm, gemm_reduce_scatter", lambda: member.prepare("gemm", self.q)),
                           ("split is 'ring'; allowed", lambda: member.prepare("fmha", self.q, self.q, self.q, split="ring")),
                           ("q is a Spec, which has no memory", lambda: member.fmha(tilejit.Spec((1, 2, 8, 64)), self.q, self.q)),
                           ("a is on cuda:0; allowed: the group's device",
                            lambda: member.prepare("all_gather_gemm", *2 * [tilejit.Spec((8, 64), "f16", "cuda:0")])),
                           ("a has 4 dimensions", lambda: member.all_gather_gemm(self.q, self.q)),
                           ("size is 0", lambda: dist.Group.on_model(0))):
            with self.assertRaises(tilejit.Error) as caught:
                call()
            self.assertIn(part, str(caught.exception))

    @unittest.skipUnless(torch, with_torch.WHY)
    def test_process_group_of_torch(self):
        """torch's own NCCL cannot be replaced, and joins only where there is a GPU: elsewhere its error is told."""
        if torch.cuda.is_available():
            self.skipTest("torch sees a GPU: its NCCL would join with host memory, which it cannot send; tests/gpu/context_fmha.py covers GPUs")
        q = torch.from_numpy(self.q)
        wanted = tilejit.fmha(self.q, self.q, self.q, causal=True, runtime=self.runtime)
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {NVLS: "0"}):
            torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
            try:
                o = dist.Group.of_torch(device="cpu", runtime=self.runtime).fmha(q, q, q, causal=True)
                numpy.testing.assert_allclose(o.numpy().astype(float), wanted.astype(float), atol=2e-3)
            except tilejit.Error as error:
                self.assertRegex(str(error), "rank 0: .*(ncclGetUniqueId failed|libnccl.so.2 does not open)|ncclCommInitRank failed|allowed: the devices")
            finally:
                torch.distributed.destroy_process_group()

    @unittest.skipUnless(torch, with_torch.WHY)
    def test_process_group_where_a_rank_fails(self):
        """Both ranks raise, whichever of them cannot join: none waits for the other."""
        def said(**unique_id):
            with mock.patch.object(dist, "unique_id", **unique_id), self.assertRaises(tilejit.Error) as caught:
                dist.Group.of_torch(device="cpu", runtime=self.runtime)
            return str(caught.exception)

        env = dict(os.environ, PYTHONPATH=os.path.dirname(os.path.abspath(__file__)))
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {NVLS: "0"}):
            store = f"file://{folder}/store"
            words = [sys.executable, "-B", "-c", SECOND_RANK, store]
            with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env) as second:
                try:
                    torch.distributed.init_process_group("gloo", init_method=store, rank=0, world_size=2, timeout=WAIT)
                    try:
                        found = said(return_value=bytes(128)), said(side_effect=tilejit.Error("NCCL is missing", "load", "not_found"))
                    finally:
                        torch.distributed.destroy_process_group()
                    told = second.communicate()[0]
                finally:
                    second.kill()
        self.assertEqual(found, (f"launch: the group cannot be joined; rank 1: argument: {NVLS} is not set; allowed: 0, set before the first "
                                 "communicator", "launch: the group cannot be joined; rank 0: load: NCCL is missing"))
        self.assertEqual(tuple(line for line in told.splitlines() if line.startswith("launch: ")), found, told)

    def test_sample(self):
        for words, env in ((["--split", "striped", "--seq-len", "64"], {}), (["--full", "--seq-len", "64"], {"RANK": "0", "WORLD_SIZE": "2"})):
            env = dict(os.environ, PYTHONPATH=os.path.join(here.ROOT, "src", "python"),
                       LD_LIBRARY_PATH=os.path.dirname(os.environ["TJ_TEST_LIBRARY"]), **env)
            done = subprocess.run([sys.executable, "-B", SAMPLE, *words], capture_output=True, text=True, env=env)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("2 ranks of model:", done.stdout)
            self.assertIn("check    ok", done.stdout)
        done = subprocess.run([sys.executable, "-B", SAMPLE, "--seq-len", "30"], capture_output=True, text=True, env=env)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--seq-len is 30; allowed: multiples of 4", done.stderr)

    def test_sample_tells_of_each_rank(self):
        """A rank of NaNs is wrong, and a rank that ends by any error fails, whichever rank ends first."""
        main, real = sample(), dist.Group.fmha

        def ended(behind):
            def fmha(member, *parts, **options):
                o = real(member, *parts, **options)
                return behind(o) if member.rank == 1 else o

            told = io.StringIO()
            with mock.patch.object(dist.Group, "fmha", fmha), mock.patch.object(sys, "argv", ["main.py", "--seq-len", "16"]), \
                    contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
                return main.on_model(main.arguments()), told.getvalue()

        status, told = ended(lambda o: numpy.full_like(o, numpy.nan))
        self.assertEqual((status, "check    WRONG" in told), (1, True), told)
        status, told = ended(lambda o: o[:, :3])
        self.assertEqual(status, 1, told)
        self.assertIn("rank 1: ", told)
        self.assertEqual([main.counted(x) for x in (float("nan"), 0.5, float("inf"))], [float("inf"), 0.5, float("inf")])


if __name__ == "__main__":
    here.skips.main()
