// Words that ranks write for each other, on the CPU: the names of the device's file, for the CPU model.
//
// Decides nothing: the library holds these words against the order of ranks' work where it knows that order.
#pragma once

namespace tj::dev {

TJ_DEVICE u32 load_system(const u32* address) { return detail::api.word_load(address); }
TJ_DEVICE void store_system(u32* address, u32 value) { detail::api.word_store(address, value); }
TJ_DEVICE u64 global_time() { return detail::api.time_ns(); }
TJ_DEVICE void rest() { detail::api.word_rest(); }

}  // namespace tj::dev
