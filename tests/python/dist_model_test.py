"""Protects groups of ranks from Python: attention over a split sequence on the CPU model, in each split and layout, torch's process groups,
errors by name, and samples/10_context_parallel as its user runs it."""
import os
import subprocess
import sys
import tempfile
import threading
import unittest

import here
import with_torch

tilejit, numpy = here.tilejit, here.numpy
from tilejit import dist  # noqa: E402

torch = with_torch.torch
SAMPLE = os.path.join(here.ROOT, "samples", "10_context_parallel", "main.py")


def together(members, work):
    """work(member) in a thread for each; their results, or the error of one."""
    results, errors = {}, []

    def run(member):
        try:
            results[member.rank] = work(member)
        except tilejit.Error as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(member,)) for member in members]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if errors:
        raise errors[0]
    return results


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

    def test_errors_name_the_argument(self):
        member = dist.Group.on_model(1, runtime=self.runtime)[0]
        member.check()
        self.assertEqual((member.rank, member.size), (0, 1))
        for part, call in (("split is 'ring'; allowed: contiguous, zigzag, striped", lambda: member.fmha(self.q, self.q, self.q, split="ring")),
                           ("lengths has 2 numbers", lambda: member.fmha(self.q, self.q, self.q, lengths=(96, 0))),
                           ("window_left is", lambda: member.fmha(self.q, self.q, self.q, window_left="x")),
                           ("window.left is 3 without causal", lambda: member.fmha(self.q, self.q, self.q, window_left=3)),
                           ("q has 3 dimensions", lambda: member.fmha(self.q[0], self.q, self.q)),
                           ("id is 'x'; allowed: the 128 bytes of unique_id()", lambda: dist.Group("x", 0, 1, "cpu")),
                           ("a.shape[0] is 96; allowed: the rows of d on all ranks, 9",
                            lambda: member.gemm_reduce_scatter(self.q[0, 0], self.q[0, 0], lengths=(9,))),
                           ("lengths has 2 numbers", lambda: member.gemm_reduce_scatter(self.q[0, 0], self.q[0, 0], lengths=(9, 9))),
                           ("a has 4 dimensions", lambda: member.all_gather_gemm(self.q, self.q)),
                           ("size is 0", lambda: dist.Group.on_model(0))):
            with self.assertRaises(tilejit.Error) as caught:
                call()
            self.assertIn(part, str(caught.exception))

    @unittest.skipUnless(torch, with_torch.WHY)
    def test_process_group_of_torch(self):
        """torch's own NCCL cannot be replaced, and joins only where there is a GPU: elsewhere its error is told."""
        os.environ["NCCL_NVLS_ENABLE"] = "0"
        q = torch.from_numpy(self.q)
        with tempfile.TemporaryDirectory() as folder:
            torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
            try:
                o = dist.Group.of_torch(device="cpu", runtime=self.runtime).fmha(q, q, q, causal=True)
                self.assertEqual(o.shape, q.shape)
            except tilejit.Error as error:
                self.assertRegex(str(error), "ncclGetUniqueId failed|ncclCommInitRank failed|libnccl.so.2 does not open|allowed: the devices")
            finally:
                torch.distributed.destroy_process_group()

    def test_sample(self):
        for words, env in ((["--split", "striped", "--seq-len", "64"], {}), (["--full", "--seq-len", "64"], {"RANK": "0", "WORLD_SIZE": "2"})):
            env = dict(os.environ, PYTHONPATH=os.path.join(here.ROOT, "src", "python"),
                       LD_LIBRARY_PATH=os.path.dirname(os.environ["TJ_TEST_LIBRARY"]), **env)
            done = subprocess.run([sys.executable, "-B", SAMPLE, *words], capture_output=True, text=True, env=env)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("check    ok", done.stdout)
        done = subprocess.run([sys.executable, "-B", SAMPLE, "--seq-len", "30"], capture_output=True, text=True, env=env)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--seq-len is 30; allowed: multiples of 4", done.stderr)


if __name__ == "__main__":
    here.skips.main()
