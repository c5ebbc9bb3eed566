"""Protects what the short way reads of torch's own tensors by torch's own table: addresses, types, and whether gradients are recorded. The driver and
the compiler are stand-ins. A plan looks at no device, so tensors on the CPU pass for those of its GPU."""
import unittest
import warnings
from unittest import mock

import here
from known_calls import Case, Launch, LongWay, parameter_bytes, short_plan, tilejit
from tilejit import _tensors
from tilejit._exchange import api_of
from with_torch import WHY, torch

WHY = WHY or ("" if api_of(torch.Tensor) is not None else "this torch has no exchange API")


@unittest.skipIf(WHY, WHY)
class Torch(Case):
    def setUp(self):
        super().setUp()
        patch = mock.patch.object(_tensors, "current_stream", lambda *_: 0)  # of a torch without a GPU
        patch.start()
        self.addCleanup(patch.stop)
        a, b = tilejit.Spec((64, 128), "f16", "cuda:0"), tilejit.Spec((32, 128), "f16", "cuda:0")
        self.size = parameter_bytes(lambda runtime: runtime.plan("gemm", a, b).run(*self.tensors()), self.folder)
        self.plan = self.runtime.plan("gemm", a, b)
        self.plan.run(*self.tensors())

    @staticmethod
    def tensors():
        return [torch.zeros(shape, dtype=torch.float16) for shape in ((64, 128), (32, 128), (64, 32))]

    def test_addresses(self):
        given = self.tensors()
        a = torch.zeros(65 * 128, dtype=torch.float16)[128:].view(64, 128)  # behind its memory's begin
        with Launch(self.size) as launch, short_plan():
            self.plan.run(a, *given[1:])
        self.assertIn(a.data_ptr().to_bytes(8, "little"), launch.params[0])
        with Launch(self.size) as long:
            self.plan.run(a.data_ptr(), *(x.data_ptr() for x in given[1:]))
        self.assertEqual((len(launch.params), launch), (1, long))

    def test_gradients(self):
        a, b, d = self.tensors()
        b.requires_grad_()
        for _ in range(2):
            with self.assertRaisesRegex(tilejit.Error, "b requires grad"):
                self.plan.run(a, b, d)
            for context in (torch.no_grad(), torch.inference_mode()):
                with context, short_plan():
                    self.plan.run(a, b, d)
            with short_plan():
                self.plan.run(a, b.detach(), d)
            with torch.no_grad(), torch.enable_grad(), self.assertRaisesRegex(tilejit.Error, "b requires grad"):
                self.plan.run(a, b, d)

    def test_negated_views(self):
        """Views of the imaginary parts of conjugated numbers; with one number they have no gaps."""
        a, b = tilejit.Spec((1, 128), "f16", "cuda:0"), tilejit.Spec((1, 128), "f16", "cuda:0")
        plan = self.runtime.plan("gemm", a, b)
        given = [torch.zeros(shape, dtype=torch.float16) for shape in ((1, 128), (1, 128), (1, 1))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, about its half-precision complex numbers
            negated = torch.zeros(1, dtype=torch.complex32).conj().imag[0].reshape(1, 1)
            imaginary = torch.zeros(1, 128, dtype=torch.complex32).conj().imag
        self.assertTrue(negated.is_neg() and imaginary.is_neg())
        for _ in range(2):
            plan.run(*given)
            with self.assertRaisesRegex(tilejit.Error, "d is a view of negated numbers"):
                plan.run(*given[:2], negated)
            with self.assertRaisesRegex(tilejit.Error, "a is a view of negated numbers"):
                plan.run(imaginary, *given[1:])

    def test_types(self):
        """A parameter is another type, which the plan meets as it does a tensor. What has no memory is refused behind runs that were served."""
        a, b, d = self.tensors()
        weight = torch.nn.Parameter(b, requires_grad=False)
        with self.assertRaises(LongWay), short_plan():
            self.plan.run(a, weight, d)
        for _ in range(2):
            self.plan.run(a, weight, d)
            with short_plan():
                self.plan.run(a, weight, d)
                self.plan.run(a, b, d)
            with self.assertRaisesRegex(tilejit.Error, "the address of b is null"):
                self.plan.run(a, b.to("meta"), d)
            from torch._subclasses.fake_tensor import FakeTensorMode
            with FakeTensorMode() as mode, warnings.catch_warnings(), self.assertRaisesRegex(tilejit.Error, "b has no memory|address of b is null"):
                warnings.simplefilter("ignore")  # torch's, about addresses of such tensors
                self.plan.run(a, mode.from_tensor(b), d)
            with self.assertRaisesRegex(tilejit.Error, "b has the layout torch.sparse_coo"):
                self.plan.run(a, b.to_sparse(), d)


if __name__ == "__main__":
    here.skips.main()
