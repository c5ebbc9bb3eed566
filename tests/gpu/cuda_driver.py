"""The NVIDIA driver and NVRTC through ctypes, for scripts that need no more than them.

Decides how a kernel becomes a binary and how one is launched; nothing about what kernels measure. Invariant: every driver function says
here what its arguments are, as an address that ctypes takes for an int loses its upper half; and no launch is waited for without an end.
"""
import ctypes
import hashlib
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "kernel_templates"
NVRTC_NAMES = ["libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"]
SECONDS = 20      # that one launch may take
NOT_READY = 600   # CUDA_ERROR_NOT_READY
ATTRIBUTES = {"sms": 16, "major": 75, "minor": 76, "max_smem": 97}  # CU_DEVICE_ATTRIBUTE_*; the last: what a block can opt in to

ADDRESS, HANDLE, U32, SIZE = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint, ctypes.c_size_t
ARGUMENTS = {
    "cuInit": [U32],
    "cuGetErrorName": [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)],
    "cuDeviceGet": [ctypes.POINTER(ctypes.c_int), ctypes.c_int],
    "cuDeviceGetAttribute": [ctypes.POINTER(ctypes.c_int), ctypes.c_int, ctypes.c_int],
    "cuDevicePrimaryCtxRetain": [ctypes.POINTER(HANDLE), ctypes.c_int],
    "cuCtxSetCurrent": [HANDLE],
    "cuModuleLoadData": [ctypes.POINTER(HANDLE), ctypes.c_char_p],
    "cuModuleUnload": [HANDLE],
    "cuModuleGetFunction": [ctypes.POINTER(HANDLE), HANDLE, ctypes.c_char_p],
    "cuFuncSetAttribute": [HANDLE, ctypes.c_int, ctypes.c_int],
    "cuMemAlloc_v2": [ctypes.POINTER(ADDRESS), SIZE],
    "cuMemFree_v2": [ADDRESS],
    "cuMemsetD8_v2": [ADDRESS, ctypes.c_ubyte, SIZE],
    "cuMemcpyDtoH_v2": [HANDLE, ADDRESS, SIZE],
    "cuMemcpyHtoD_v2": [ADDRESS, HANDLE, SIZE],
    "cuEventCreate": [ctypes.POINTER(HANDLE), U32],
    "cuEventRecord": [HANDLE, HANDLE],
    "cuEventQuery": [HANDLE],
    "cuEventElapsedTime": [ctypes.POINTER(ctypes.c_float), HANDLE, HANDLE],
    "cuLaunchKernel": [HANDLE] + [U32] * 7 + [HANDLE, ctypes.POINTER(HANDLE), ctypes.POINTER(HANDLE)],
}


def check(status, call):
    if status != 0:
        raise RuntimeError(f"{call} returned {status}")


def load_library(names, what):
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    sys.exit(f"{what} was not found; searched {', '.join(names)}")


def compile_kernel(nvrtc, text, arch="sm_90a", result="CUBIN"):
    """The text's binary for the arch, or with result "PTX" its assembler's text; the templates are on the include path."""
    program = ctypes.c_void_p()
    check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"measure.cu", 0, None, None), "nvrtcCreateProgram")
    options = [b"--gpu-architecture=" + arch.encode(), b"-std=c++17", b"-I" + str(TEMPLATES).encode()]
    status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    if status != 0:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        sys.exit(f"{arch}: {log.value.decode()}")
    check(getattr(nvrtc, f"nvrtcGet{result}Size")(program, ctypes.byref(size)), f"nvrtcGet{result}Size")
    binary = ctypes.create_string_buffer(size.value)
    check(getattr(nvrtc, f"nvrtcGet{result}")(program, binary), f"nvrtcGet{result}")
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return binary.raw


class Binaries:
    """Binaries of kernels: from a folder where they are there, else compiled, and then left in the folder. Their names carry a hash of
    the kernel's text and of the templates, so one that is older than either is never taken."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder) if folder else None
        self.nvrtc = None
        self.templates = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(TEMPLATES.rglob("*.cuh"))))
        if self.folder:
            self.folder.mkdir(parents=True, exist_ok=True)

    def get(self, name, text, arch):
        key = self.templates.copy()
        key.update(text.encode())
        file = self.folder and self.folder / f"{arch}-{''.join(c if c.isalnum() else '_' for c in name)}-{key.hexdigest()[:12]}.cubin"
        if file and file.exists():
            return file.read_bytes()
        self.nvrtc = self.nvrtc or load_library(NVRTC_NAMES, f"a binary of '{name}' for {arch} is not in {self.folder or 'a folder (--cubins)'}, and NVRTC")
        binary = compile_kernel(self.nvrtc, text, arch)
        if file:
            part = file.with_suffix(f".{os.getpid()}")
            part.write_bytes(binary)
            part.replace(file)
        return binary


class Driver:
    """The first device, its primary context and the legacy stream of this thread."""

    def __init__(self):
        self.cuda = load_library(["libcuda.so.1"], "the NVIDIA driver")
        for name, arguments in ARGUMENTS.items():
            getattr(self.cuda, name).argtypes = arguments
        device, context = ctypes.c_int(), HANDLE()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        for name, number in ATTRIBUTES.items():
            value = ctypes.c_int()
            self.call("cuDeviceGetAttribute", ctypes.byref(value), number, device)
            setattr(self, name, value.value)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.events = [HANDLE(), HANDLE()]
        for event in self.events:
            self.call("cuEventCreate", ctypes.byref(event), 0)

    def call(self, name, *arguments):
        status = getattr(self.cuda, name)(*arguments)
        if status != 0:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorName(status, ctypes.byref(text))
            raise RuntimeError(f"{name} returned {status}, {(text.value or b'of no name').decode()}")

    def load(self, binary, name=b"measure", smem=0):
        """(module, function), the latter with so much dynamic shared memory allowed."""
        module, function = HANDLE(), HANDLE()
        self.call("cuModuleLoadData", ctypes.byref(module), binary)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name)
        self.call("cuFuncSetAttribute", function, 8, smem)  # 8: CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        return module, function

    def unload(self, module):
        self.call("cuModuleUnload", module)

    def memory(self, size, content=None):
        """An address of so many bytes, zeros or what is given."""
        address = ADDRESS()
        self.call("cuMemAlloc_v2", ctypes.byref(address), size)
        if content is None:
            self.call("cuMemsetD8_v2", address, 0, size)
        else:
            self.call("cuMemcpyHtoD_v2", address, (ctypes.c_char * len(content)).from_buffer_copy(content), len(content))
        return address.value

    def free(self, address):
        self.call("cuMemFree_v2", address)

    def read(self, address, kind, count):
        values = (kind * count)()
        self.call("cuMemcpyDtoH_v2", values, address, ctypes.sizeof(values))
        return list(values)

    def run(self, function, blocks, threads, smem, params):
        """Launches, waits, and returns milliseconds between two events. A kernel that does not end cannot be stopped, nor its context be
        destroyed: then the process says so and leaves."""
        arguments = (HANDLE * 1)(ctypes.addressof(params))
        self.call("cuEventRecord", self.events[0], None)
        self.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, smem, None, arguments, None)
        self.call("cuEventRecord", self.events[1], None)
        end = time.monotonic() + SECONDS
        while (status := self.cuda.cuEventQuery(self.events[1])) == NOT_READY:
            if time.monotonic() > end:
                print(f"error: the kernel has not ended within {SECONDS} s", flush=True)
                os._exit(1)
            time.sleep(0.0005)
        if status != 0:
            self.call("cuEventQuery", self.events[1])
        elapsed = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(elapsed), *self.events)
        return elapsed.value
