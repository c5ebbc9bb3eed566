// See link_order.hpp. Rules: PTX ISA 8.7, "Memory consistency model"; CUDA's driver API, "Stream Management". Work of a
// stream is done in its order, and an event tells what came before it.
#include "model/link_order.hpp"

#include <algorithm>
#include <iterator>

#include "model/thread.hpp"
#include "support/fail.hpp"

namespace tj::model {

using support::cat;

void LinkOrder::join(Clock& into, const Clock& other) {
  if (into.size() < other.size()) into.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) into[i] = std::max(into[i], other[i]);
}

LinkOrder::Grain& LinkOrder::grain(std::uintptr_t number) {
  auto& page = pages_[number / kPage];
  if (page == nullptr) page = std::make_unique<Page>();
  return (*page)[number % kPage];
}

/// Grains that somebody has touched.
template <class Visit>
void LinkOrder::each_known(Span bytes, const Visit& visit) {
  for (std::uintptr_t at = bytes.begin / kGrain; at * kGrain < bytes.end;) {
    const std::uintptr_t end = std::min((at / kPage + 1) * kPage, (bytes.end + kGrain - 1) / kGrain);
    const auto page = pages_.find(at / kPage);
    for (; at < end && page != pages_.end(); ++at) visit((*page->second)[at % kPage], at * kGrain);
    at = end;
  }
}

bool LinkOrder::knows(const Work& work, const Done& prior) const {
  return prior.queue < work.knows.size() && work.knows[prior.queue] >= prior.time;
}

LinkOrder::Id LinkOrder::record(const Work& work) {
  done_.push_back({work.queue, work.knows[work.queue], work.text, work.copies});
  return static_cast<Id>(done_.size() - 1);
}

/// looks: what it reads must be of use.
void LinkOrder::read(const Work& work, Id id, Span bytes, bool looks) {
  for (std::uintptr_t at = bytes.begin / kGrain; at * kGrain < bytes.end; ++at) {
    Grain& place = grain(at);
    if (place.writer != 0 && !knows(work, done_[place.writer]))
      race(work, false, done_[place.writer], true, at * kGrain);
    if (place.of_no_use && looks)
      fault(cat(work.text, " reads ", this->place(at * kGrain), " before it has arrived: nobody has written it since ",
                done_[place.let_go_by].text));
    place.readers.push_back(id);
  }
}

void LinkOrder::write(const Work& work, Id id, Span bytes) {
  for (std::uintptr_t at = bytes.begin / kGrain; at * kGrain < bytes.end; ++at) {
    Grain& place = grain(at);
    if (place.writer != 0 && place.writer != id && !knows(work, done_[place.writer]))
      race(work, true, done_[place.writer], true, at * kGrain);
    for (const Id reader : place.readers)
      if (reader != id && !knows(work, done_[reader])) race(work, true, done_[reader], false, at * kGrain);
    place.readers.clear();
    place.writer = id;
    place.of_no_use = false;
  }
}

void LinkOrder::touch(const Work& work, const std::vector<Span>& reads, const std::vector<Span>& writes) {
  const Id id = record(work);
  for (const Span& span : reads) read(work, id, span);
  for (const Span& span : writes) write(work, id, span);
}

void LinkOrder::copy(const Work& work, const std::vector<Row>& rows) {
  const Id id = record(work);
  for (const Row& row : rows) {
    read(work, id, {row.from, row.from + row.bytes}, false);
    write(work, id, {row.to, row.to + row.bytes});
    for (std::size_t at = 0; at < row.bytes; at += kGrain) {
      const Grain& from = grain((row.from + at) / kGrain);
      if (!from.of_no_use) continue;
      Grain& to = grain((row.to + at) / kGrain);
      to.of_no_use = true;
      to.let_go_by = from.let_go_by;
    }
  }
}

void LinkOrder::let_go(const Work& work, Span bytes) {
  const Id id = record(work);
  done_[id].lets_go = true;
  each_known(bytes, [&](Grain& place, std::uintptr_t address) {
    write(work, id, {address, address + kGrain});
    place.of_no_use = true;
    place.let_go_by = id;
  });
}

void LinkOrder::race(const Work& work, bool writes, const Done& prior, bool wrote, std::uintptr_t address) const {
  const bool arrives = prior.copies && wrote && !writes,
             overwrites = work.copies && writes && (!wrote || prior.lets_go);
  fault(cat(work.text, writes ? " writes " : " reads ", place(address),
            arrives      ? " before it has arrived, which "
            : overwrites ? " before it was let go, which "
                         : ", which ",
            prior.text,
            prior.lets_go ? " does"
            : wrote       ? " has written"
                          : " has read",
            ", and nothing orders the two: ",
            arrives      ? "a wait for the word behind the copy is missing, or the word was told before the copy's end"
            : overwrites ? "who reads has not told that it has read (a release is missing), or nobody has waited for it"
                         : "a wait for a word, or of one stream for another, is missing"));
}

/// A launch uses many words one after the other.
LinkOrder::Id LinkOrder::last_of(const Work& work) {
  const Done& last = done_.back();
  const bool same = last.queue == work.queue && last.time == work.knows[work.queue];
  return same ? static_cast<Id>(done_.size() - 1) : record(work);
}

void LinkOrder::use_word(const Work& work, const std::uint32_t* word, bool stores) {
  Word& of = words_[word];
  of.shared = of.shared || (of.rank >= 0 && of.rank != work.rank);
  of.rank = work.rank;
  if (of.shared) return;
  const Id id = last_of(work);
  const auto check = [&](Id prior, const char* how) {
    if (prior != 0 && !knows(work, done_[prior]))
      fault(cat(work.text, stores ? " stores" : " loads", " its rank's word, ",
                place(reinterpret_cast<std::uintptr_t>(word)), ", which ", done_[prior].text, how,
                ", and nothing orders the two: a wait of one stream for another is missing"));
  };
  check(of.writer, " has stored");
  if (!stores) {
    if (of.readers.empty() || of.readers.back() != id) of.readers.push_back(id);
    return;
  }
  for (const Id reader : of.readers) check(reader, " has loaded");
  of.readers.clear();
  of.writer = id;
}

const LinkOrder::Clock* LinkOrder::told(const std::uint32_t* word) const {
  const auto found = told_.find(word);
  return found == told_.end() ? nullptr : &found->second;
}

void LinkOrder::settle() {
  for (const auto& [number, page] : pages_)
    for (Grain& place : *page) {
      place.writer = 0;
      place.readers.clear();
    }
  told_.clear();
  words_.clear();
  if (done_.back().time != 0) done_.emplace_back();  // times begin anew, and nobody's last work is that of before
}

void LinkOrder::add_memory(Span memory) { memory_[memory.begin] = {memory.end, ++allocations_}; }
void LinkOrder::remove_memory(Span memory) {
  memory_.erase(memory.begin);
  each_known(memory, [](Grain& place, std::uintptr_t) { place = {}; });
}

std::string LinkOrder::place(std::uintptr_t address) const {
  const auto behind = memory_.upper_bound(address);
  if (behind != memory_.begin()) {
    const auto& [begin, memory] = *std::prev(behind);
    if (address < memory.first) return cat("byte ", address - begin, " of allocation ", memory.second);
  }
  return cat("the byte at ", hex(address));
}

}  // namespace tj::model
