// Ordinary accesses to global memory on AMD GPUs; addresses are multiples of the access's size. Included by amd.cuh.
//
// Decides how wide an instruction is, and no order: the compiler waits for accesses under way. Invariant: one access is
// one instruction, but of `store_halves`.
#pragma once

namespace tj::dev {

TJ_DEVICE float load_global(const float* address) { return detail::load<float>(address); }
TJ_DEVICE void load_global(const void* address, u32 (&words)[4]) {
  const auto four = detail::load<detail::Words4>(address);
  __builtin_memcpy(words, &four, sizeof(four));
}
TJ_DEVICE void load_global(const void* address, u32 (&words)[2]) {
  const auto two = detail::load<detail::Words2>(address);
  __builtin_memcpy(words, &two, sizeof(two));
}
TJ_DEVICE void load_global(const float* address, float& a, float& b) {
  u32 words[2];
  load_global(static_cast<const void*>(address), words);
  a = detail::number(words[0]);
  b = detail::number(words[1]);
}
TJ_DEVICE void load_global(const float* address, float (&v)[4]) {
  const auto four = detail::load<detail::Words4>(address);
  __builtin_memcpy(v, &four, sizeof(four));
}
/// Asks for memory ahead of its loads on other archs; here waves beside each other hide them.
TJ_DEVICE void prefetch_near(const void*) {}
TJ_DEVICE u32 load_global_u8(const void* address) { return detail::load<unsigned char>(address); }
TJ_DEVICE u32 load_global_u32(const void* address) { return detail::load<u32>(address); }
TJ_DEVICE u32 load_global_u16(const void* address) { return detail::load<unsigned short>(address); }
TJ_DEVICE void store_global(void* address, u32 a, u32 b, u32 c, u32 d) {
  detail::store(address, detail::Words4{a, b, c, d});
}
TJ_DEVICE void store_global(void* address, u32 a, u32 b) { detail::store(address, detail::Words2{a, b}); }
TJ_DEVICE void store_global(void* address, u32 value) { detail::store(address, value); }
TJ_DEVICE void store_global_u8(void* address, u32 value) { detail::store(address, static_cast<unsigned char>(value)); }
TJ_DEVICE void store_global_u16(void* address, u32 value) {
  detail::store(address, static_cast<unsigned short>(value));
}
TJ_DEVICE void store_global(float* address, float value) { detail::store(address, value); }
TJ_DEVICE void store_global(float* address, float a, float b) {
  detail::store(address, detail::Words2{detail::bits(a), detail::bits(b)});
}
TJ_DEVICE void store_global(float* address, const float (&v)[4]) {
  detail::store(address,
                detail::Words4{detail::bits(v[0]), detail::bits(v[1]), detail::bits(v[2]), detail::bits(v[3])});
}
/// The first `count` of 8 halves, none where that is not positive; all 16 bytes at once where they are allowed to be
/// (`wide`).
TJ_DEVICE void store_halves(void* address, const u32 (&words)[4], int count, bool wide) {
  if (wide && count > 7) return store_global(address, words[0], words[1], words[2], words[3]);
  unsigned short* halves = static_cast<unsigned short*>(address);
#pragma unroll
  for (int e = 0; e < 8; ++e)
    if (e < count) store_global_u16(halves + e, words[e / 2] >> (e % 2 * 16));
}

// ---- counters in global memory, as nvidia.cuh says ------------------------------------------------------------------
// Source: LLVM's AMDGPU usage guide, "Memory Model", scope agent.
TJ_DEVICE u32 draw_global(u32* counter) {
  return __hip_atomic_fetch_add(counter, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <int Site>
TJ_DEVICE void signal_global(u32* counter, u32 amount) {
  __hip_atomic_fetch_add(counter, amount, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
}
template <int Site>
TJ_DEVICE void wait_global(const u32* counter, u32 value) {
  while (static_cast<int>(__hip_atomic_load(counter, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) - value) < 0) {
  }
}
template <int Site>
TJ_DEVICE void reset_global(u32* counter) {
  __hip_atomic_store(counter, 0u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

}  // namespace tj::dev
