// Files from strangers: whatever is in them, a reader gives what they hold or Error{kUsage} that
// names the file; it allocates in proportion to what they have, and comes to an end.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "runtime/error.h"
#include "runtime/file.h"
#include "tests/apps/file_readers.h"
#include "tests/apps/gzip.h"
#include "tests/support/allocation_meter.h"
#include "tests/support/mutated.h"
#include "tests/support/temporary_folder.h"

namespace kerf::apps {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr int kMutations = 1'000;
#else
constexpr int kMutations = 20'000;
#endif

// A byte of deflate makes at most 1032, which a picture has as three of eight bits, converted once.
constexpr size_t kMostPerByte = 3 * 8 * 1032;
constexpr size_t kMostAlways = size_t{8} << 20;
constexpr size_t kHead = 80;  // of the longest header here

std::string file(const std::string& name) {
  return runtime::read_file(std::filesystem::path(KERF_TEST_FILES) / name);
}

using Reader = std::function<void(const std::string& bytes)>;

void survive(const std::string& sound, const Reader& read) {
  EXPECT_NO_THROW(read(sound));
  std::mt19937_64 random(21);
  int refused = 0;
  for (int i = 0; i < kMutations && !testing::Test::HasFailure(); ++i) {
    const std::string bytes = tests::mutated(sound, random, kHead);
    const size_t before = tests::allocated_bytes();
    try {
      read(bytes);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage) << error.what();
      EXPECT_FALSE(error.where().empty()) << error.what();
      EXPECT_LT(error.message().size(), 1000U);
      ++refused;
    }
    EXPECT_LE(tests::allocated_bytes() - before, kMostAlways + kMostPerByte * bytes.size())
        << "mutation " << i;
  }
  EXPECT_GT(refused, kMutations / 20);  // otherwise the mutations miss
}

TEST(HostileFiles, Npy) { survive(file("alone.npy"), tests::read_npy); }
TEST(HostileFiles, NpzOfStoredArrays) { survive(file("stored.npz"), tests::read_npz); }
TEST(HostileFiles, NpzOfDeflatedArrays) { survive(file("deflated.npz"), tests::read_npz); }

TEST(HostileFiles, Png) { survive(file("waves.png"), tests::read_picture); }
TEST(HostileFiles, PngWithAPalette) { survive(file("palette.png"), tests::read_picture); }
TEST(HostileFiles, Jpeg) { survive(file("waves.jpg"), tests::read_picture); }
TEST(HostileFiles, ProgressiveJpeg) { survive(file("progressive.jpg"), tests::read_picture); }

TEST(HostileFiles, Gzip) {
  const tests::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 600; ++i) text += i % 7 == 0 ? "some text" : "aaaaaaaaaa";
  tests::write_gzip(folder / "a.gz", text);
  survive(runtime::read_file(folder / "a.gz"), tests::read_gzip);
}

TEST(HostileFiles, Idx) {
  const std::string labels = tests::idx_header(0x00000801, {4}) + std::string("\0\1\2\3", 4);
  const std::string images = tests::idx_header(0x00000803, {4, 6, 6}) + std::string(4 * 36, 'p');
  survive(images, [&](const std::string& bytes) { tests::read_idx(bytes, labels); });
  survive(labels, [&](const std::string& bytes) { tests::read_idx(images, bytes); });
}

}  // namespace
}  // namespace kerf::apps
