"""A device that executes what the library launches: the fake HIP runtime hands each launch over, its code object runs here.

Decides nothing about the library, which takes it for any HIP device: its memory is this process's, a launch is done when it returns.
Invariant: the first fault of a launch is kept until somebody asks for it.
"""
import ctypes
import os
import tempfile
from pathlib import Path

from amd_launch import launch


class Launch(ctypes.Structure):
    """fake_hip_launch of tests/fakes/fake_hip_control.h."""
    _fields_ = [("image", ctypes.c_void_p), ("image_bytes", ctypes.c_size_t), ("function", ctypes.c_char_p), ("grid", ctypes.c_uint), ("threads", ctypes.c_uint),
                ("shared_bytes", ctypes.c_uint), ("params", ctypes.c_void_p), ("params_bytes", ctypes.c_size_t)]


class Device:
    """Made before the library opens a HIP runtime; one in a process."""
    _only = None

    @classmethod
    def only(cls, processor):
        """The one of this process, as this processor."""
        cls._only = cls._only or cls(processor)
        cls._only.processor = processor
        return cls._only

    def __init__(self, processor):
        self.folder = tempfile.TemporaryDirectory()
        self.fake = ctypes.CDLL(str(Path(os.environ["TJ_TEST_BUILD_DIR"]) / "tests/fakes/libamdhip64.so.6"))
        self.fake.fake_hip_reset()
        self.memory, self.error, self.seed, self.launches = [], None, 1, 0
        self.instead = None  # a code object that is run in the place of the library's own
        self.callback = ctypes.CFUNCTYPE(None, ctypes.POINTER(Launch))(self.carry_out)
        self.fake.fake_hip_on_launch(self.callback)
        self.processor = processor

    @property
    def processor(self):
        return self._processor

    @processor.setter
    def processor(self, name):
        """Makes the device this processor, for runtimes that are made from now on."""
        self._processor = name
        self.fake.fake_hip_set_processor(name.encode())

    def allocated(self):
        """The memory that the library has allocated for itself."""
        blocks, begin, size = [], ctypes.c_void_p(), ctypes.c_size_t()
        while self.fake.fake_hip_memory(ctypes.c_size_t(len(blocks)), ctypes.byref(begin), ctypes.byref(size)):
            blocks.append((begin.value, size.value))
        return blocks

    def carry_out(self, description):
        try:
            one = description.contents
            path = Path(self.folder.name) / f"{self.launches}.co"
            self.launches += 1
            path.write_bytes(self.instead or ctypes.string_at(one.image, one.image_bytes))
            launch(str(path), self.processor, one.function.decode(), one.grid, one.threads, one.shared_bytes, ctypes.string_at(one.params, one.params_bytes),
                   self.memory + self.allocated(), self.seed)
        except Exception as error:  # ctypes would swallow it
            self.error = self.error or error

    def check(self):
        """Raises what the launches since the last check ran into."""
        error, self.error = self.error, None
        if error is not None:
            raise error
