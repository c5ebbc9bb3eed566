// Slots of states, and where a head's state lies in one. Included by node bodies.
//
// Decides places alone. Invariant: whatever lists say, a slot is one that there is, or none.
#pragma once

#include "ops/gated_delta_rule/params.cuh"

namespace tj::ops::gated_delta_rule {

/// The slot of a sequence; -1: none.
TJ_DEVICE int slot_of(const States& states, int sequence) {
  if (states.data == nullptr) return -1;
  int slot = sequence;
  if (states.slots != nullptr) slot = dev::uniform(static_cast<int>(dev::load_global_u32(states.slots + sequence)));
  return slot >= 0 && slot < states.count ? slot : -1;
}
/// The begin of a head's state in a slot.
TJ_DEVICE unsigned char* head_of(const States& states, int slot, int head) {
  return static_cast<unsigned char*>(states.data) + (slot * states.slot + head * states.head);
}

/// The place of the state after so many tokens, or chunks, of a sequence; -1: it is not kept.
TJ_DEVICE int kept_place(const TokenStates& each, int count) {
  if (each.data == nullptr) return -1;
  const int place = divided(count, each.by_every);
  return place * each.every == count && place <= each.tokens ? place - 1 : -1;
}
/// The begin of a head's state there.
TJ_DEVICE unsigned char* head_of(const TokenStates& each, int sequence, int place, int head) {
  return static_cast<unsigned char*>(each.data) + (sequence * each.sequence + place * each.token + head * each.head);
}
/// The begin of a head's scales in a slot.
TJ_DEVICE float* scales_of(const States& states, int slot, int head) {
  return reinterpret_cast<float*>(reinterpret_cast<unsigned char*>(states.scales) +
                                  (slot * states.scale_slot + head * states.scale_head));
}
TJ_DEVICE float* scales_of(const TokenStates& each, int sequence, int place, int head) {
  return reinterpret_cast<float*>(reinterpret_cast<unsigned char*>(each.scales) +
                                  (sequence * each.scale_sequence + place * each.scale_token + head * each.scale_head));
}

}  // namespace tj::ops::gated_delta_rule
