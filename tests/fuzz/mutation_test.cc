// Bytes from strangers: whatever they are, a reader takes them or refuses them by the file's name,
// in memory in proportion to them, and comes to an end.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include "tests/fuzz/onnx_mutator.h"
#include "tests/fuzz/readers.h"
#include "tests/support/allocation_meter.h"
#include "tests/support/mutated.h"

namespace kerf::tests {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr uint64_t kMutations = 1'000;
#else
constexpr uint64_t kMutations = 2'000;
#endif
// Of each sound file; KERF_MUTATIONS asks for others.
uint64_t count_mutations() {
  const char* const asked = std::getenv("KERF_MUTATIONS");
  return asked == nullptr ? kMutations : std::stoull(asked);
}
constexpr size_t kHead = 80;  // of the longest header here

struct Case {
  const Reader* reader;
  std::string name;
  std::string bytes;
};

// NOLINTNEXTLINE(readability-identifier-naming): the name that GoogleTest looks for
void PrintTo(const Case& of, std::ostream* to) { *to << of.reader->name << " " << of.name; }

// Of each reader all sound bytes; none means that nobody tries it.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Reader& reader : readers()) {
    const auto sound = sound_bytes(reader.name);
    if (sound.empty()) throw std::logic_error("nothing to begin with for " + reader.name);
    for (const auto& [name, bytes] : sound) all.push_back({&reader, name, bytes});
  }
  return all;
}

std::string name_of(const testing::TestParamInfo<Case>& of) {
  std::string name = of.param.reader->name + "_" + of.param.name;
  for (char& letter : name)
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  return name;
}

class Mutations : public testing::TestWithParam<Case> {};

// Offers what `mutate` makes of each seed.
template <class Mutate>
void survive(const Reader& reader, const std::string& sound, uint64_t mutations,
             const Mutate& mutate) {
  ASSERT_NO_THROW(reader.read(sound));
  uint64_t refused = 0;
  for (uint64_t seed = 0; seed < mutations && !testing::Test::HasFailure(); ++seed) {
    const std::string bytes = mutate(seed);
    const size_t before = allocated_bytes();
    try {
      refused += takes(reader, bytes) ? 0 : 1;
    } catch (const std::exception& fault) {
      ADD_FAILURE() << "seed " << seed << ": " << fault.what();
    }
    EXPECT_LE(allocated_bytes() - before, reader.most_always + reader.most_per_byte * bytes.size())
        << "seed " << seed;
  }
  EXPECT_GT(refused, mutations / 50);  // otherwise the mutations miss
}

TEST_P(Mutations, AreTakenOrRefused) {
  const Case& sound = GetParam();
  survive(*sound.reader, sound.bytes, count_mutations(), [&](uint64_t seed) {
    std::mt19937_64 random(seed);
    return mutated(sound.bytes, random, kHead);
  });
}

INSTANTIATE_TEST_SUITE_P(Readers, Mutations, testing::ValuesIn(cases()), name_of);

// Changed as messages, most models are still some: this goes further in.
TEST(ModelMutations, AreTakenOrRefused) {
  const Reader& reader = find_reader("onnx");
  const auto models = sound_bytes("onnx");
  ModelMutator mutator;
  for (const auto& [name, sound] : models) mutator.learn(sound);
  for (const auto& [name, sound] : models) {
    SCOPED_TRACE(name);
    survive(reader, sound, count_mutations() / 8,
            [&, &sound = sound](uint64_t seed) { return *mutator.changed(sound, seed); });
  }
}

}  // namespace
}  // namespace kerf::tests
