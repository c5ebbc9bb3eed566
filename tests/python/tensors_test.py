"""Protects what is read of tensors: DLPack capsules of both kinds, used-up and damaged ones, foreign devices, types, strides, and tensors of torch
that have no memory or want gradients. Each refusal names the argument; nothing crashes."""
import ctypes
import sys
import types
import unittest

import here

tilejit = here.tilejit
from tilejit import _exchange, _tensors  # noqa: E402

_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_New", ctypes.pythonapi))
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))


class Producer:
    """A framework with nothing but DLPack."""

    def __init__(self, shape, strides=None, dtype=(2, 16, 1), device=(1, 0), versioned=False, flags=0, major=1, offset=0, old=False, fails=None):
        self.memory = ctypes.create_string_buffer(4096)
        self.shape = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        self.strides = None if strides is None else (ctypes.c_int64 * max(len(strides), 1))(*strides)
        self.device, self.old, self.fails, self.versioned, self.asked = device, old, fails, versioned, []
        tensor = _exchange.DLTensor(data=ctypes.addressof(self.memory), device_type=device[0], device_id=device[1], ndim=len(shape), code=dtype[0],
                                    bits=dtype[1], lanes=dtype[2], shape=self.shape, byte_offset=offset)
        if self.strides is not None:
            tensor.strides = self.strides
        self.managed = _exchange.Versioned(major=major, minor=0, flags=flags, tensor=tensor) if versioned else tensor
        self.name = b"dltensor_versioned" if versioned else b"dltensor"
        self.used = b"used_" + self.name

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **asked):
        self.asked.append(asked)
        if self.old and "max_version" in asked:
            raise TypeError("unexpected keyword argument 'max_version'")
        if self.fails:
            raise self.fails
        return _new(ctypes.addressof(self.managed), self.name, None)


class Tensors(unittest.TestCase):
    def refused(self, part, x, written=False):
        with self.assertRaises(tilejit.Error) as caught:
            _tensors.view("k", x, written)
        self.assertIn(part, caught.exception.message)
        self.assertTrue(caught.exception.message.startswith("k"), caught.exception.message)
        self.assertEqual((caught.exception.stage, caught.exception.code), ("argument", "invalid_argument"))

    def test_dlpack(self):
        for versioned in (False, True):
            for old in (False, True):
                made = Producer((2, 3), (16, 1), versioned=versioned, old=old, offset=32)
                view = _tensors.view("k", made)
                self.assertEqual((view.shape, view.strides, view.dtype, view.c.device.kind), ((2, 3), (16, 1), "f16", 0))
                self.assertEqual(view.c.data, ctypes.addressof(made.memory) + 32)
                self.assertNotIn("stream", made.asked[-1])
        view = _tensors.view("k", Producer((2, 3, 4), dtype=(4, 16, 1)))
        self.assertEqual((view.strides, view.dtype), ((12, 4, 1), "bf16"))
        self.assertEqual(_tensors.view("k", Producer((), dtype=(2, 32, 1))).shape, ())
        for dtype, name in (((0, 32, 1), "i32"), ((10, 8, 1), "e4m3")):
            self.assertEqual(_tensors.view("k", Producer((1,), dtype=dtype)).dtype, name)

    def test_devices_and_streams(self):
        for device, kind, stream in (((2, 1), 1, 1), ((10, 0), 2, 0), ((13, 0), 1, 1)):
            made = Producer((1,), device=device)
            view = _tensors.view("k", made)
            self.assertEqual((view.c.device.kind, view.c.device.index, made.asked[-1]["stream"]), (kind, device[1], stream))
            _tensors.view("k", made, stream=4711)
            self.assertEqual(made.asked[-1]["stream"], 4711)
            _tensors.view("k", made, stream=0)  # which DLPack forbids for CUDA, as there are two default streams
            self.assertEqual(made.asked[-1]["stream"], stream)
        self.refused("on a device of DLPack's type 7; allowed: CPU (1)", Producer((1,), device=(7, 0)))
        for stream, handle in ((7, 7), (types.SimpleNamespace(cuda_stream=8), 8), (types.SimpleNamespace(ptr=9), 9),
                               (types.SimpleNamespace(__cuda_stream__=lambda: (0, 10)), 10)):
            self.assertEqual(_tensors.handle_of(stream), handle)
        for stream in (-1, 2**64, 1.5, "0", types.SimpleNamespace(ptr=-1), types.SimpleNamespace(__cuda_stream__=(0, -1))):
            with self.assertRaisesRegex(tilejit.Error, "stream is .* allowed: a driver's handle"):
                _tensors.handle_of(stream)

    def test_damaged(self):
        used = Producer((1,))
        used.__class__ = type("Used", (Producer,), {"__dlpack__": lambda self, **_: self.capsule})
        used.capsule = _new(ctypes.addressof(used.managed), used.name, None)
        _rename(used.capsule, b"used_dltensor")
        self.refused("allowed: a DLPack capsule that nobody has used up", used)
        for given in (None, 3, object()):
            used.capsule = given
            self.refused("allowed: a DLPack capsule", used)
        self.refused("of version 2.0", Producer((1,), versioned=True, major=2))
        self.refused("read-only", Producer((1,), versioned=True, flags=1), True)
        _tensors.view("k", Producer((1,), versioned=True, flags=1))
        self.refused("type code 2 with 64 bits", Producer((1,), dtype=(2, 64, 1)))
        self.refused("4 lanes", Producer((1,), dtype=(2, 16, 4)))
        self.refused("6 dimensions", Producer((1,) * 6))
        self.refused("gives no DLPack tensor: no", Producer((1,), fails=BufferError("no")))
        self.refused("gives no DLPack tensor: no", Producer((1,), fails=TypeError("no")))
        bare = Producer((1,))
        bare.managed.shape = None
        self.refused("1 dimensions without a shape", bare)
        lost = Producer((1,))
        lost.device = None
        self.refused("does not say its device", lost)
        for x in (None, 3, "text", [1.0], object(), Producer):
            self.refused("is of the type", x)

    def test_capsules_are_given_back(self):
        """Each is let go by the end of the view: a producer that counts references is as before."""
        made = Producer((1,))
        before = sys.getrefcount(made)
        for _ in range(10):
            _tensors.view("k", made)
        self.assertEqual(sys.getrefcount(made), before)

    @unittest.skipUnless(here.numpy, here.NO_NUMPY)
    def test_modules_that_another_thread_begins_to_import(self):
        x = here.numpy.zeros((4, 6), here.numpy.float16)
        for name in ("torch", "cupy", "jax"):
            sys.modules[name] = types.ModuleType(name)  # as they are before their first line has run
            try:
                self.assertEqual(_tensors.view("k", x).framework, "numpy")
            finally:
                del sys.modules[name]

    @unittest.skipUnless(here.numpy, here.NO_NUMPY)
    def test_numpy(self):
        numpy = here.numpy
        x = numpy.zeros((4, 6), numpy.float16)
        view = _tensors.view("k", x[::2, 1:])
        self.assertEqual((view.shape, view.strides, view.c.data), ((2, 5), (12, 1), x.ctypes.data + 2))
        self.assertEqual(_tensors.view("k", x[::-1]).strides, (-6, 1))
        self.refused("has the type >f2", x.astype(">f2"))
        self.refused("strides of (3,) bytes", numpy.ndarray((2,), numpy.float16, bytearray(8), strides=(3,)))
        self.refused("is a masked array", numpy.ma.masked_array(x, mask=x > 0))
        self.refused("has the type object", numpy.array([None]))
        x.flags.writeable = False
        self.refused("is read-only", x, True)
        self.refused("is of the type numpy.float16", numpy.float16(1))


class Stub:
    """torch as far as it is asked."""

    class Tensor:
        def __init__(self, device="cuda", index=0, dtype="torch.float16", requires_grad=False, layout="strided", memory=4096, negated=False, nested=False):
            self.is_neg = lambda: negated
            self.device, self.dtype, self.requires_grad = types.SimpleNamespace(type=device, index=index), dtype, requires_grad
            self.layout, self.memory, self.shape, self.nested = layout, memory, (2, 3), nested

        def stride(self):
            if self.nested:
                raise RuntimeError("Internal error: NestedTensorImpl doesn't support sizes.")
            return (3, 1)

        def data_ptr(self):
            if self.memory is None:
                raise RuntimeError("Cannot access data pointer of Tensor (e.g. FakeTensor)\nand so on")
            return self.memory

    strided = "strided"
    version = types.SimpleNamespace(hip=None)
    cuda = types.SimpleNamespace(current_stream=lambda index: types.SimpleNamespace(cuda_stream=100 + index))
    grad = True

    @classmethod
    def is_grad_enabled(cls):
        return cls.grad


@unittest.skipIf("torch" in sys.modules, "torch is here")
class Torch(unittest.TestCase):
    """What is asked of tensors of torch, by a stand-in."""

    refused = Tensors.refused

    def setUp(self):
        sys.modules["torch"] = Stub
        Stub.grad, Stub.version.hip = True, None

    def tearDown(self):
        del sys.modules["torch"]

    def test_torch(self):
        view = _tensors.view("k", Stub.Tensor(index=1))
        self.assertEqual((view.framework, view.shape, view.strides, view.c.data, view.c.device.kind, view.c.device.index),
                         ("torch", (2, 3), (3, 1), 4096, 1, 1))
        self.assertEqual(_tensors.stream_of(view), 101)
        self.assertEqual(_tensors.stream_of(_tensors.view("k", Stub.Tensor("cpu", None))), 0)
        self.refused("is on", Stub.Tensor("meta"))
        self.refused("take tilejit.Spec", Stub.Tensor("meta"))
        self.refused("has no memory: Cannot access data pointer of Tensor (e.g. FakeTensor)", Stub.Tensor(memory=None))
        self.refused("has no memory; prepare()", Stub.Tensor(memory=0))
        self.refused("requires grad", Stub.Tensor(requires_grad=True))
        self.refused("resolve_neg", Stub.Tensor(negated=True))
        self.refused("has no shape and strides: Internal error", Stub.Tensor(nested=True))
        self.refused("layout", Stub.Tensor(layout="sparse_coo"))
        self.refused("torch.float64", Stub.Tensor(dtype="torch.float64"))
        with self.assertRaisesRegex(tilejit.Error, "k is a view of negated numbers"):
            _tensors.address_of("k", Stub.Tensor(negated=True))
        Stub.grad = False
        _tensors.view("k", Stub.Tensor(requires_grad=True))
        Stub.version.hip = "6.2"
        self.assertEqual(_tensors.view("k", Stub.Tensor()).c.device.kind, 2)


if __name__ == "__main__":
    here.skips.main()
