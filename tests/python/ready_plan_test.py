"""Protects the short way of plans' runs: it launches what the long way launches. It knows the types of tensors that it has met, and leaves to the long
way what it does not know. The driver, the compiler and the framework are stand-ins."""
import types
from unittest import mock

import here
import framework
from framework import Array
from known_calls import Case, Hook, Launch, LongWay, driver, parameter_bytes, short_plan, tilejit
from tilejit import _ready


class Plans(Case):
    def test_plan(self):
        a, b, d = self.product()
        plan = self.runtime.plan("gemm", a, b)
        plan.run(a, b, d)
        others = self.product()
        size = parameter_bytes(lambda runtime: runtime.gemm(a, b, out=d), self.folder)
        with Launch(size) as short, short_plan():
            plan.run(*others)
        self.forget(plan)
        with Launch(size) as long:
            plan.run(*others)
        self.assertEqual(short, long)
        with self.assertRaisesRegex(tilejit.Error, "the address of d .* allowed"):
            plan.run(a, b, Array((64, 32), shift=1))
        with self.assertRaisesRegex(tilejit.Error, "2 tensors are given; allowed: 3"):
            plan.run(a, b)
        self.runtime.close()
        plan.run(*others)

    def test_plan_with_views_that_may_be_negated(self):
        """Tensors with gaps in every dimension and those of one number, as torch's views of negated numbers are: DLPack does not say it of them."""
        for shape, strides, others in (((64, 32), (64, 2), [Array((64, 128)), Array((32, 128))]), ((1, 1), None, [Array((1, 128)), Array((1, 128))])):
            d = Array(shape, strides=strides)
            plan = self.runtime.plan("gemm", *others, out=Array(shape))
            for _ in range(2):
                with self.assertRaises(LongWay), short_plan():
                    plan.run(*others, d)
                plan.run(*others, d)

    @staticmethod
    def forget(plan):
        plan._known.clear()
        plan._last = _ready.NOTHING

    def test_plan_with_a_stream(self):
        a, b, d = self.product()
        plan = self.runtime.plan("gemm", a, b)
        plan.run(a, b, d)
        framework.set_stream(0x7000)  # which nobody asks for where the caller names one
        for stream in (0, 0x5000, types.SimpleNamespace(cuda_stream=0x6000)):
            with Launch() as short, short_plan():
                plan.run(a, b, d, stream=stream)
            self.forget(plan)
            with Launch() as long:
                plan.run(a, b, d, stream=stream)
            self.assertEqual((len(short.lines), short), (1, long))
        for stream in (-1, 2**63, "s", 0.5):
            with self.assertRaisesRegex(tilejit.Error, "stream is"):
                plan.run(a, b, d, stream=stream)

    def test_plan_with_tensors_of_several_types(self):
        """A plan serves each combination of types that it has met, in any order. Other types, and lists of another length, go the long way."""
        a, b, d = self.product()
        kinds = [type(f"Kind{i}", (Array,), {}) for i in range(3)]
        calls = [(a, b, d), *((kind((64, 128)), kind((32, 128)), kind((64, 32))) for kind in kinds), (kinds[0]((64, 128)), b, d)]
        plan = self.runtime.plan("gemm", a, b)
        for call in calls:
            with self.assertRaises(LongWay), short_plan():
                plan.run(*call)
            plan.run(*call)
        for call in (*calls, *reversed(calls)):
            with Launch() as launch, short_plan():
                plan.run(*call)
            self.assertEqual(len(launch.lines), 1)
        for call in ((a, b, kinds[1]((64, 32))), (a, b, self), (a, b, None)):
            with self.assertRaises(LongWay), short_plan():
                plan.run(*call)
        for call in ((), (a, b), (a, b, d, d), (5, a, b, d)):
            with self.assertRaisesRegex(tilejit.Error, "tensors are given; allowed: 3"), short_plan():
                plan.run(*call)

    def test_plan_that_learns_while_it_runs(self):
        """What serves a run lives until the run returns, though another thread has put something else in its place."""
        a, b, d = self.product()
        plan, done = self.runtime.plan("gemm", a, b), []
        plan.run(a, b, d)
        destroy = plan._last._destroy
        plan._last._destroy = lambda value: (done.append("destroyed"), destroy(value))
        fill = Array.fill

        def replaced(array, out):
            self.forget(plan)
            fill(array, out)
        launched = Hook(lambda *_: done.append("launched"))
        driver.fake_cuda_on_launch(launched, None)
        try:
            with mock.patch.object(Array, "fill", replaced), short_plan():
                plan.run(a, b, d)
        finally:
            driver.fake_cuda_on_launch(Hook(), None)
        self.assertEqual(done, ["launched", "destroyed"])
        plan.run(a, b, d)


if __name__ == "__main__":
    here.skips.main()
