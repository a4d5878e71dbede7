// Files from strangers: whatever they hold, there is a model, or an error that names the file; in
// bounded memory.
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "partitioner/onnx/import.h"
#include "tests/support/allocation_meter.h"
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

std::string mutated(std::string bytes, std::mt19937& random) {
  const auto below = [&](size_t limit) { return random() % limit; };
  for (size_t edits = 1 + below(4); edits > 0 && !bytes.empty(); --edits) {
    const size_t at = below(bytes.size());
    const size_t size = std::min(bytes.size() - at, 1 + below(16));
    switch (below(7)) {
      case 0:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 1:
        bytes.erase(at, size);
        break;
      case 2:
        bytes.insert(at, bytes.substr(at, size));
        break;
      case 3:
        bytes.resize(at);
        break;
      case 4:
        bytes.replace(at, std::min<size_t>(5, bytes.size() - at), "\xff\xff\xff\xff\x07", 5);
        break;
      case 5:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 6:
        bytes.replace(at, size, bytes.substr(below(bytes.size()), size));
        break;
    }
  }
  return bytes;
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
    std::mt19937 random(static_cast<uint32_t>(seed));
    std::filesystem::remove(file);  // to write over it, file systems wait for the disk
    std::ofstream(file, std::ios::binary) << mutated(valid, random);
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
