#!/usr/bin/env python3
"""Groups of multiprocessors, and to which of them clusters go: the source of Arch::cluster_groups in src/arch/.

Blocks of one cluster lie in one group, so launches of clusters of 2 to 8 blocks show the groups. Launches of clusters of two, one block
a multiprocessor, show for each distance how many pairs of clusters so far apart share a group. The distance with the most pairs is the
number of groups that get clusters in turn. For how often L2 is asked, profile a kernel by these counters:
  ncu --metrics l1tex__m_xbar2l1tex_read_sectors.sum,lts__t_sectors_srcunit_tex.sum
Sectors that reach multiprocessors over those that L2 gives is how many of a group's reads it answers at once.
Needs an NVIDIA driver, a device of compute capability 9.0 and NVRTC.
Usage: tests/gpu/cluster_groups.py
"""
import argparse
import ctypes

from cuda_driver import Binaries, Driver

ROUNDS = 20
SMEM = 200 * 1024  # one block a multiprocessor
KERNEL = """
struct Params { unsigned* out; };
extern "C" __global__ void __cluster_dims__(%d) measure(const __grid_constant__ Params p) {
  unsigned place;
  asm volatile("mov.u32 %%0, %%%%smid;" : "=r"(place));
  if (threadIdx.x == 0) p.out[blockIdx.x] = place;
  for (const long long begin = clock64(); clock64() - begin < 20000;) {}
}
"""


class Params(ctypes.Structure):
    _fields_ = [("out", ctypes.c_uint64)]


def places(driver, binaries, arch, cluster, blocks):
    """The multiprocessor of each block of a launch."""
    module, function = driver.load(binaries.get(f"places {cluster}", KERNEL % cluster, arch), smem=SMEM)
    memory = driver.memory(4 * blocks)
    driver.run(function, blocks, 128, SMEM, Params(memory))
    found = driver.read(memory, ctypes.c_uint32, blocks)
    driver.free(memory)
    driver.unload(module)
    return found


def groups_of(driver, binaries, arch):
    """The number of each multiprocessor's group."""
    group = {}
    for cluster in (8, 6, 4, 2):  # of 8 alone, a group of 16 would look like two
        for _ in range(ROUNDS):
            found = places(driver, binaries, arch, cluster, driver.sms // cluster * cluster)
            for first in range(0, len(found), cluster):
                joined = {group.setdefault(place, place) for place in found[first:first + cluster]}
                group = {place: min(joined) if of in joined else of for place, of in group.items()}
    numbers = {of: number for number, of in enumerate(sorted(set(group.values())))}
    return {place: numbers[of] for place, of in group.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cubins", metavar="DIR", help="take the kernels' binaries from this folder, and leave there those that it lacks")
    binaries, driver = Binaries(parser.parse_args().cubins), Driver()
    arch = f"sm_{driver.major}{driver.minor}a"
    group = groups_of(driver, binaries, arch)
    sizes = {}
    for of in group.values():
        sizes[of] = sizes.get(of, 0) + 1
    print(f"{len(group)} of {driver.sms} multiprocessors, groups of {', '.join(str(sizes[of]) for of in sorted(sizes))}")
    order = [group[place] for place in places(driver, binaries, arch, 2, driver.sms // 2 * 2)[::2]]
    print("groups of clusters of two, in their order:", " ".join(map(str, order)))
    shares = {step: sum(one == other for one, other in zip(order, order[step:])) / (len(order) - step) for step in range(1, 17)}
    for step, share in shares.items():
        print(f"clusters {step} apart: {100 * share:.0f}% share a group")
    print(f"groups that get clusters in turn: {max(shares, key=shares.get)}")


if __name__ == "__main__":
    main()
