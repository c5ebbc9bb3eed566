// The happens-before order of ranks' work: who may rely on what another rank has done.
//
// Decides what a piece of work knows: what came before it in its queue, what events and loaded words have told it.
// Decides the words of a report. It knows no stream and runs nothing. It is not thread safe.
// Invariant: what it finds depends on the order of events only where the order itself differs, never on values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace tj::model {

class LinkOrder {
 public:
  using Time = std::uint32_t;
  /// The works of each queue that are done, by the queue's number.
  using Clock = std::vector<Time>;
  struct Span {
    std::uintptr_t begin = 0, end = 0;  ///< half-open
  };
  /// A piece of work, or a part of it that acts by itself.
  struct Work {
    unsigned queue = 0;
    Clock knows;  ///< its own time, too
    std::string text;
    bool copies = false;  ///< it is a copy of a link's
    int rank = -1;
  };

  static void join(Clock& into, const Clock& other);

  /// All that the work has read and written. Throws tj::Error(model, model_fault) for a byte that another one has
  /// touched, when nothing orders the two, and for one that is of no use.
  void touch(const Work& work, const std::vector<Span>& reads, const std::vector<Span>& writes);
  /// Bytes from one place to another. Bytes of no use, such as gaps between tensors, may be copied. The copy of them is
  /// of no use, too.
  struct Row {
    std::uintptr_t from = 0, to = 0;
    std::size_t bytes = 0;
  };
  void copy(const Work& work, const std::vector<Row>& rows);
  /// The content of these bytes is of no use from now on, to whoever reads them before they are written.
  void let_go(const Work& work, Span bytes);

  /// Whoever loads the word knows this, too.
  void tell(const std::uint32_t* word, const Clock& knows) { told_[word] = knows; }
  /// The work loads a word, or stores it. Throws as touch() does, for a word that one rank alone uses: nobody else
  /// orders its loads and stores.
  void use_word(const Work& work, const std::uint32_t* word, bool stores);
  /// Nothing is told with the word but its value.
  void tell_nothing(const std::uint32_t* word) { told_.erase(word); }
  /// It is null where nobody has told anything.
  const Clock* told(const std::uint32_t* word) const;

  /// All work is done, and whoever comes later knows of it.
  void settle();
  void add_memory(Span memory);
  void remove_memory(Span memory);
  /// "byte 64 of allocation 3".
  std::string place(std::uintptr_t address) const;

 private:
  using Id = std::uint32_t;  ///< 0: none
  struct Done {
    unsigned queue = 0;
    Time time = 0;
    std::string text;
    bool copies = false, lets_go = false;
  };
  struct Grain {
    Id writer = 0;
    std::vector<Id> readers;  ///< since the last write
    bool of_no_use = false;
    Id let_go_by = 0;
  };
  struct Word {
    int rank = -1;        ///< that uses it
    bool shared = false;  ///< more than one does
    Id writer = 0;
    std::vector<Id> readers;  ///< since then
  };
  static constexpr std::uintptr_t kGrain = 2, kPage = 2048;  ///< bytes of the least access; grains of a page
  using Page = std::array<Grain, kPage>;

  Grain& grain(std::uintptr_t number);
  template <class Visit>
  void each_known(Span bytes, const Visit& visit);
  bool knows(const Work& work, const Done& prior) const;
  void read(const Work& work, Id id, Span bytes, bool looks = true);
  void write(const Work& work, Id id, Span bytes);
  Id record(const Work& work);
  Id last_of(const Work& work);
  [[noreturn]] void race(const Work& work, bool writes, const Done& prior, bool wrote, std::uintptr_t address) const;

  std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;
  std::vector<Done> done_{1};
  std::unordered_map<const std::uint32_t*, Clock> told_;
  std::unordered_map<const std::uint32_t*, Word> words_;
  std::map<std::uintptr_t, std::pair<std::uintptr_t, unsigned>> memory_;  ///< by begin: end, number
  unsigned allocations_ = 0;
};

}  // namespace tj::model
