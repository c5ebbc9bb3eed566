"""A kernel that takes multiprocessors for a while, and times on the GPU's own clock; for beside.py.

Decides how other work is put beside a call, and when work began and ended. Knows no ops. Invariants: a kernel here ends by one of two clocks, and
no wait is without an end. Torch and the driver share the device's primary context.
"""
import ctypes
import os
import time

import cuda_driver

TEXT = r'''
__device__ unsigned long long now() {
  unsigned long long time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}
extern "C" __global__ void take(unsigned long long* stamps, unsigned long long nanoseconds, long long cycles) {
  if (threadIdx.x != 0) return;
  const long long first = clock64();
  const unsigned long long begin = now();
  unsigned long long end = begin;
  while (end - begin < nanoseconds && clock64() - first < cycles) end = now();
  unsigned sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  stamps[3 * blockIdx.x] = begin;
  stamps[3 * blockIdx.x + 1] = end;
  stamps[3 * blockIdx.x + 2] = sm;
}
extern "C" __global__ void stamp(unsigned long long* place) { *place = now(); }
'''
CYCLES_PER_NS = 4      # more than any clock has: the cap comes behind the time that was asked for
BEGIN, END, HELD, STAMPS = 0, 1, 2, 8  # cells: the op's begin and end, what a hold writes, the taker's blocks
MOST_BLOCKS = 1024


class Machine:
    """The first GPU with three streams: of the op, of other work, and of the gate that lets both go at once."""

    def __init__(self, torch):
        torch.cuda.init()
        self.torch, self.driver = torch, cuda_driver.Driver()
        nvrtc = cuda_driver.load_library(cuda_driver.NVRTC_NAMES, "NVRTC")
        binary = cuda_driver.compile_kernel(nvrtc, TEXT, f"sm_{self.driver.major}{self.driver.minor}")
        _, self._take = self.driver.load(binary, b"take", self.driver.max_smem)
        _, self._stamp = self.driver.load(binary, b"stamp")
        self.op, self.other, self.gate = (torch.cuda.Stream() for _ in range(3))
        self.cells = torch.zeros(STAMPS + 3 * MOST_BLOCKS, device="cuda", dtype=torch.int64)
        self.wait(torch.cuda.current_stream())
        self.take(self.other, 1, 1000)  # what is loaded at its first launch is loaded now
        self.stamp(self.op, BEGIN)
        self.wait(self.op, self.other)

    def _launch(self, function, blocks, smem, stream, *values):
        params = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
        self.driver.call("cuLaunchKernel", function, blocks, 1, 1, 32, 1, 1, smem, stream.cuda_stream, params, None)

    def _cell(self, index):
        return ctypes.c_uint64(self.cells.data_ptr() + 8 * index)

    def take(self, stream, blocks, nanoseconds):
        """So many blocks, each with an SM's shared memory."""
        self._launch(self._take, blocks, self.driver.max_smem, stream, self._cell(STAMPS), ctypes.c_uint64(int(nanoseconds)),
                     ctypes.c_int64(int(nanoseconds) * CYCLES_PER_NS))

    def hold(self, stream, nanoseconds):
        """One small block, behind which the stream's next work waits."""
        self._launch(self._take, 1, 0, stream, self._cell(HELD), ctypes.c_uint64(int(nanoseconds)), ctypes.c_int64(int(nanoseconds) * CYCLES_PER_NS))

    def stamp(self, stream, cell):
        self._launch(self._stamp, 1, 0, stream, self._cell(cell))

    def event(self, stream):
        event = self.torch.cuda.Event(enable_timing=True)
        event.record(stream)
        return event

    def wait_event(self, event):
        """A kernel that does not end cannot be stopped: then the process says so and leaves."""
        end = time.monotonic() + cuda_driver.SECONDS
        while not event.query():
            if time.monotonic() > end:
                print(f"error: the GPU has not come so far within {cuda_driver.SECONDS} s", flush=True)
                os._exit(1)

    def wait(self, *streams):
        for event in [self.event(stream) for stream in streams]:
            self.wait_event(event)

    def open_gate_behind(self, nanoseconds):
        """What the op's stream and the other one get from now on begins so long after the gate's work."""
        self.hold(self.gate, nanoseconds)
        event = self.event(self.gate)
        self.op.wait_event(event)
        self.other.wait_event(event)

    def read(self, blocks):
        """(the op's begin, its end, [(begin, end, SM) of the taker's blocks]) in nanoseconds; all streams were waited for."""
        cells = self.cells[:STAMPS + 3 * blocks].cpu().tolist()
        taken = [tuple(cells[i:i + 3]) for i in range(STAMPS, STAMPS + 3 * blocks, 3)]
        if not all(begin and end for begin, end, _ in taken):
            raise RuntimeError("a block of the taker left no stamps")
        return cells[BEGIN], cells[END], taken
