// Protects the corpora of the fuzz targets: each reader has one that is committed, with texts that it takes, and keeps
// its promise for each of them and for what is cut from it. TJ_TEST_WRITE=1 writes them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "cache/cache_fixture.hpp"
#include "cache/pack_format.hpp"
#include "cache/remote_format.hpp"
#include "manifest.hpp"
#include "ops/gemm/gemm.hpp"
#include "support/expect.hpp"
#include "support/fields_text.hpp"
#include "support/fuzz.hpp"

namespace {

using namespace tj::testing;
using tj::cache::encode;

const std::string kCorpus = TJ_REPO_DIR "/tests/cache/corpus/";

std::vector<std::string> texts_of(const std::string& reader) {
  std::vector<std::filesystem::path> paths;
  for (const auto& file : std::filesystem::directory_iterator(kCorpus + reader)) paths.push_back(file.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const auto& path : paths) texts.push_back(read_bytes(path.string()));
  return texts;
}

std::string packed() {
  const std::string one = encode(key_of("one"), entry_of("payload")), two = encode(key_of("two"), entry_of("other"));
  std::vector<tj::cache::PackRecord> records(2);
  records[0] = {key_of("one"), tj::cache::kPackMagic.size(), one.size(), tj::support::sha256(one)};
  records[1] = {key_of("two"), records[0].offset + one.size(), two.size(), tj::support::sha256(two)};
  REQUIRE(records[0].key.request_hex < records[1].key.request_hex);  // an index is in this order
  const std::string index = tj::cache::encode_index(records);
  return std::string(tj::cache::kPackMagic) + one + two + index +
         tj::cache::encode_end(2, index, records[1].offset + two.size(), nullptr);
}

std::string text_of(const tj::cache::Entry& entry) {
  std::string text;
  for (const auto& [name, value] : entry.metadata) text += name + "=" + value + "\n";
  return text;
}

constexpr const char* kKernelLine =
    R"({"kernel":"fmha","target":"sm_90a","fields":{"dtype":"f16","head-dim":"128","causal":"true","general-scale":"false"}})";

/// Texts of a manifest, of records of measured choices and of aliases.
void add_texts(std::vector<std::pair<std::string, std::string>>& files) {
  const tj::ops::Op& gemm = *tj::ops::find("gemm");
  const tj::ops::Problem problem = tj::ops::gemm_tunable().problems({{"sizes", {"1024"}}, {"dtype", {"f16"}}}).front();
  tj::TunedMachine machine{tj::arch::find("sm_90a"), "NVIDIA H200", 132, "CUDA 13.0"};
  const std::string choice = gemm.tunable()->variants(problem, *machine.arch).front().name;
  const std::string custom = R"({"kernel":"custom","target":"sm_90a","fields":{"name":"mine","graph":")" +
                             std::string(64, 'a') + R"(","templates":")" + std::string(64, 'b') +
                             R"(","max_stages":"0","max_slots":"0","turns":"1"}})";
  files.emplace_back("manifest/run", std::string(kKernelLine) + "\n# a comment\n" + custom + "\n" +
                                         tj::manifest_line(machine, gemm, problem, choice) + "\n");
  files.emplace_back("manifest/bad", "{\"kernel\":[\nnull\n1e999\n\xff\n" + std::string(kKernelLine).substr(0, 60));
  files.emplace_back("tuning/record", text_of(tj::tuning_entry(machine, gemm, problem, choice, 12.5)));
  machine.driver = "CUDA 12.8";
  files.emplace_back("tuning/other_driver", text_of(tj::tuning_entry(machine, gemm, problem, choice, 12.5)));
  files.emplace_back("alias/named", text_of(tj::cache::alias_entry(std::string(64, 'c'), {{"name", "fmha"}})));
  files.emplace_back("alias/short", text_of(tj::cache::alias_entry(std::string(63, 'c'), {})));
}

/// Texts that this version writes, by the file's name.
std::vector<std::pair<std::string, std::string>> written() {
  const std::string entry = encode(key_of("one"), entry_of("payload")),
                    alias = encode(tj::cache::alias_key(key_of("one").request_hex),
                                   tj::cache::alias_entry(key_of("text").request_hex, {{"name", "fmha_f16_d128"}}));
  std::string problem;
  const auto secret = tj::support::SecretKey::parse("tilejit-secret-key " + std::string(64, '7'), &problem);
  REQUIRE_MESSAGE(secret, problem);
  std::vector<std::pair<std::string, std::string>> files = {
      {"entry/kernel", entry},
      {"entry/alias", alias},
      {"entry/unframed", entry.substr(tj::cache::kHeaderBytes, entry.size() - tj::cache::kHeaderBytes - 32)},
      {"pack/two", packed()},
      {"pack/empty",
       std::string(tj::cache::kPackMagic) + tj::cache::encode_end(0, "", tj::cache::kPackMagic.size(), nullptr)},
      {"remote/unsigned", tj::cache::encode_remote("name", entry, nullptr)},
      {"remote/signed", tj::cache::encode_remote("name", entry, &*secret)},
      {"remote/header", tj::cache::encode_remote("name", "", nullptr)}};
  add_texts(files);
  return files;
}

TEST_CASE("each reader's corpus is committed, and is what this version writes and takes") {
  std::string problem;
  for (const auto& each : written()) {
    const std::string &file = each.first, &bytes = each.second;
    CAPTURE(file);
    if (std::getenv("TJ_TEST_WRITE") != nullptr) {
      std::filesystem::create_directories((kCorpus + file).substr(0, (kCorpus + file).rfind('/')));
      write_bytes(kCorpus + file, bytes);
    }
    CHECK(read_bytes(kCorpus + file) == bytes);
  }
  CHECK(tj::cache::decode(read_bytes(kCorpus + "entry/kernel"), nullptr, &problem));
  for (const char* value : {"remote/unsigned", "remote/signed"})
    CHECK(tj::cache::read_remote("name", read_bytes(kCorpus + value), nullptr, &problem));
  const std::string pack = read_bytes(kCorpus + "pack/two");
  const auto end = tj::cache::read_end(pack.substr(pack.size() - tj::cache::kPackEndBytes), pack.size(), &problem);
  REQUIRE_MESSAGE(end, problem);
  CHECK(end->count == 2);
  const tj::Manifest manifest = tj::read_manifest(read_bytes(kCorpus + "manifest/run"));
  CHECK(manifest.bad.empty());
  CHECK(manifest.kernels.size() == 2);
  CHECK(manifest.tunings.size() == 1);
  const tj::WantedTuning& tuning = manifest.tunings.at(0);
  tj::cache::Entry record;
  record.metadata = fields_of_text(read_bytes(kCorpus + "tuning/record"));
  CHECK_MESSAGE(
      tj::read_tuning(tj::tuning_key(tuning.machine, *tuning.op, tuning.problem), record, tuning.machine, problem),
      problem);
  record.metadata = fields_of_text(read_bytes(kCorpus + "alias/named"));
  CHECK(tj::cache::aliased(record).size() == 64);
}

TEST_CASE("each reader keeps its promise for its corpus, every cut of it and every changed byte") {
  struct Target {
    const char* reader;
    int (*read)(const std::uint8_t*, std::size_t);
    std::size_t step;  ///< of the places that are cut and changed
  };
  for (const Target& target :
       {Target{"entry", fuzz_entry, 1}, Target{"pack", fuzz_pack, 1}, Target{"remote", fuzz_remote, 1},
        Target{"manifest", fuzz_manifest, 7}, Target{"tuning", fuzz_tuning, 3}, Target{"alias", fuzz_alias, 1}}) {
    CAPTURE(target.reader);
    const auto feed = [&](const std::string& text) {
      target.read(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
    };
    const std::vector<std::string> texts = texts_of(target.reader);
    CHECK(texts.size() >= 2);
    for (const std::string& text : texts) {
      feed(text);
      for (std::size_t at = 0; at < text.size(); at += target.step) {
        feed(text.substr(0, at));
        std::string changed = text;
        changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
        feed(changed);
      }
    }
  }
}

}  // namespace
