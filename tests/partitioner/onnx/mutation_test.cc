// Files from strangers: whatever they hold, there is a model, or an error that names the file; in
// bounded memory.
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "partitioner/onnx/import.h"
#include "tests/support/allocation_meter.h"
#include "tests/support/mutated.h"
#include "tests/support/temporary_folder.h"

namespace kerf::partitioner::onnx {
namespace {

#ifdef KERF_SANITIZED
constexpr int kMutations = 1000;
#else
constexpr int kMutations = 20000;
#endif

// What one read may take in all, of files of some kilobytes: constants that are computed are the
// most of it, each bounded.
constexpr size_t kAllowed = size_t{1} << 30;

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class Hostile : public testing::TestWithParam<const char*> {};

TEST_P(Hostile, FilesAreTakenOrRefusedByName) {
  const std::filesystem::path folder = KERF_ONNX_MODELS;
  const std::string valid = contents(folder / GetParam());
  ASSERT_FALSE(valid.empty());
  const tests::TemporaryFolder scratch;
  std::filesystem::copy(folder / "external.bin", scratch / "external.bin");
  const std::filesystem::path file = scratch / "hostile.onnx";
  int taken = 0;
  int refused = 0;
  for (int seed = 0; seed < kMutations; ++seed) {
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    std::filesystem::remove(file);  // to write over it, file systems wait for the disk
    std::ofstream(file, std::ios::binary) << tests::mutated(valid, random);
    const size_t before = tests::allocated_bytes();
    try {
      import_file(file);
      ++taken;
    } catch (const Error& error) {
      ++refused;
      EXPECT_EQ(error.code(), ErrorCode::kUsage) << "seed " << seed << ": " << error.what();
      EXPECT_NE(std::string(error.what()).find("hostile.onnx"), std::string::npos)
          << "seed " << seed << ": " << error.what();
    }
    EXPECT_LE(tests::allocated_bytes() - before, kAllowed) << "seed " << seed;
  }
  EXPECT_GT(taken, kMutations / 100);
  EXPECT_GT(refused, kMutations / 10);
}

INSTANTIATE_TEST_SUITE_P(Readers, Hostile,
                         testing::Values("convolutions.onnx", "shapes.onnx", "external.onnx",
                                         "older.onnx", "made.onnx"));

}  // namespace
}  // namespace kerf::partitioner::onnx
