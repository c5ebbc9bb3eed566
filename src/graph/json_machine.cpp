// See json_machine.hpp.
#include "graph/json_machine.hpp"

#include <algorithm>

#include "graph/examples.hpp"
#include "support/text.hpp"

namespace tj::graph {
namespace {

using support::cat;
using support::shown;

constexpr const char* kPlace = "machine";
constexpr std::int64_t kMaxCapacity = 4096;
constexpr std::int64_t kMaxGroupWarps = 32;
constexpr std::int64_t kMaxLanes = 128;  ///< of a warp
constexpr std::int64_t kMaxCluster = 16;
constexpr std::int64_t kMaxRegisterFile = std::int64_t{1} << 24;

std::vector<Machine> named_machines(const std::vector<Machine>& machines) {
  std::vector<Machine> all = {normalised_hopper(), normalised_blackwell()};
  all[0].name = "hopper";
  all[1].name = "blackwell";
  all.insert(all.end(), machines.begin(), machines.end());
  return all;
}

bool same(const Machine& a, const Machine& b) {
  return a.memory_bytes == b.memory_bytes && a.warps_per_group == b.warps_per_group && a.warp_size == b.warp_size &&
         a.registers == b.registers && a.max_registers_per_thread == b.max_registers_per_thread &&
         a.register_step == b.register_step && a.register_roles == b.register_roles &&
         a.shared_barriers == b.shared_barriers && a.overlapped_launch == b.overlapped_launch &&
         a.max_cluster == b.max_cluster &&
         std::equal(a.units.begin(), a.units.end(), b.units.begin(), b.units.end(),
                    [](const Unit& x, const Unit& y) { return x.name == y.name && x.capacity == y.capacity; });
}

}  // namespace

Machine find_machine(const Fields& fields, const std::string& place, const std::string& given,
                     const std::vector<Machine>& machines, const MachineFinder& find) {
  std::string known;
  if (given == "hopper") return normalised_hopper();
  if (given == "blackwell") return normalised_blackwell();
  for (const Machine& each : named_machines(machines)) {
    if (each.name == given) return each;
    known += (known.empty() ? "" : ", ") + each.name;
  }
  try {
    if (std::optional<Machine> found = find ? find(given) : std::nullopt) return std::move(*found);
  } catch (const Error& e) {
    fields.reject(place, " is '", shown(given), "': ", shown(e.message, 1000));
  }
  fields.reject(place, " is '", shown(given), "'; allowed are ", known, place == kPlace ? ", or an object" : "");
}

ReadMachine read_machine(const Fields& fields, const Json& json, const std::vector<Machine>& machines,
                         const MachineFinder& find, int blocks_per_sm) {
  if (json.is_string())
    return {share_of(find_machine(fields, kPlace, json.get_ref<const std::string&>(), machines, find), blocks_per_sm),
            true};
  if (!json.is_object())
    fields.reject("machine is ", value_text(json), "; allowed are a name, such as \"hopper\", or an object");
  fields.keys(json, "machine",
              {"functional_units", "memory", "warps_per_group", "warp_size", "registers", "max_registers_per_thread",
               "register_step", "register_roles", "shared_barriers", "overlapped_launch", "max_cluster"});
  ReadMachine read;
  Machine& machine = read.machine;
  machine.name = "custom";
  for (const auto& [unit, capacity] :
       fields.object(fields.required(json, "machine", "functional_units"), "machine.functional_units").items()) {
    const std::string place = "machine.functional_units." + shown(unit);
    machine.units.push_back({fields.name(unit, place), fields.number(capacity, place, 1, kMaxCapacity)});
  }
  read.bounded = Fields::optional(json, "memory") != nullptr;
  if (const Json* memory = Fields::optional(json, "memory"))
    for (const auto& [space, bytes] : fields.object(*memory, "machine.memory").items()) {
      const std::string place = "machine.memory." + shown(space);
      machine.memory_bytes[fields.name(space, place)] = fields.integer(bytes, place, 1, kMaxSpaceBytes);
    }
  const auto number = [&](const char* key, int otherwise, std::int64_t high) {
    return fields.number_or(json, "machine", key, otherwise, 1, high);
  };
  machine.warps_per_group = number("warps_per_group", machine.warps_per_group, kMaxGroupWarps);
  machine.warp_size = number("warp_size", machine.warp_size, kMaxLanes);
  machine.registers = number("registers", static_cast<int>(machine.registers), kMaxRegisterFile);
  machine.max_registers_per_thread =
      number("max_registers_per_thread", machine.max_registers_per_thread, kMaxRegisterCount);
  machine.register_step = number("register_step", machine.register_step, machine.max_registers_per_thread);
  machine.register_roles = fields.flag(json, "machine", "register_roles", machine.register_roles);
  machine.shared_barriers = fields.flag(json, "machine", "shared_barriers", machine.shared_barriers);
  machine.overlapped_launch = fields.flag(json, "machine", "overlapped_launch", machine.overlapped_launch);
  machine.max_cluster = number("max_cluster", machine.max_cluster, kMaxCluster);
  return read;
}

Json machine_json(const Machine& machine, const std::vector<Machine>& machines, int blocks_per_sm) {
  // Machines of different names may be alike: its own name comes first.
  const std::vector<Machine> named = named_machines(machines);
  for (const bool own_name : {true, false})
    for (const Machine& each : named)
      if ((each.name == machine.name || !own_name) && same(machine, share_of(each, blocks_per_sm))) return each.name;
  Json json = {{"functional_units", Json::object()}};
  for (const Unit& unit : machine.units) json["functional_units"][unit.name] = unit.capacity;
  for (const auto& [space, bytes] : machine.memory_bytes) json["memory"][space] = bytes;
  const Machine usual;
  const auto number = [&](const char* key, std::int64_t value, std::int64_t otherwise) {
    if (value != otherwise) json[key] = value;
  };
  number("warps_per_group", machine.warps_per_group, usual.warps_per_group);
  number("warp_size", machine.warp_size, usual.warp_size);
  number("registers", machine.registers, usual.registers);
  number("max_registers_per_thread", machine.max_registers_per_thread, usual.max_registers_per_thread);
  number("register_step", machine.register_step, usual.register_step);
  if (machine.register_roles) json["register_roles"] = true;
  if (!machine.shared_barriers) json["shared_barriers"] = false;
  if (!machine.overlapped_launch) json["overlapped_launch"] = false;
  number("max_cluster", machine.max_cluster, usual.max_cluster);
  return json;
}

}  // namespace tj::graph
