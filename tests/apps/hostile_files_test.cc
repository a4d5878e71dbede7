// Files from strangers: whatever is in them, a reader gives what they hold or Error{kUsage} that
// names the file; it allocates in proportion to what they have, and comes to an end.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "apps/data/array_rows.h"
#include "apps/data/idx_folder.h"
#include "apps/data/inflated_bytes.h"
#include "apps/data/picture.h"
#include "apps/data/zip.h"
#include "runtime/error.h"
#include "runtime/file.h"
#include "tests/apps/gzip.h"
#include "tests/support/allocation_meter.h"
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

class TextBytes final : public ByteSource {
 public:
  explicit TextBytes(std::string text) : text_(std::move(text)) {}
  const std::string& origin() const override { return origin_; }
  size_t size() const override { return text_.size(); }
  void read(size_t offset, std::span<std::byte> to) const override {
    KERF_CHECK(offset <= text_.size() && to.size() <= text_.size() - offset, "beyond the end");
    std::copy_n(std::as_bytes(std::span(text_)).begin() + static_cast<std::ptrdiff_t>(offset),
                to.size(), to.begin());
  }
  uint32_t checksum() const override { return 7; }

 private:
  std::string origin_ = "the file";
  std::string text_;
};

std::string file(const std::string& name) {
  return runtime::read_file(std::filesystem::path(KERF_TEST_FILES) / name);
}

// Flips, cuts, repeats, and writes the counts that hurt most.
std::string mutated(std::string bytes, std::mt19937_64& random) {
  const auto below = [&](uint64_t bound) { return random() % bound; };
  for (uint64_t edits = 1 + below(4); edits > 0 && !bytes.empty(); --edits) {
    // Headers are where most is decided.
    const size_t at =
        below(2) == 0 ? below(bytes.size()) : below(std::min<size_t>(bytes.size(), 80));
    const size_t size = std::min(bytes.size() - at, size_t{1} + below(16));
    switch (below(6)) {
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
        if (below(4) == 0) bytes.resize(at);
        break;
      case 4:
        bytes.replace(at, std::min<size_t>(4, bytes.size() - at), "\xff\xff\xff\xff", 4);
        break;
      case 5:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
    }
  }
  return bytes;
}

using Reader = std::function<void(const std::string& bytes)>;

void survive(const std::string& sound, const Reader& read) {
  EXPECT_NO_THROW(read(sound));
  std::mt19937_64 random(21);
  int refused = 0;
  for (int i = 0; i < kMutations && !testing::Test::HasFailure(); ++i) {
    const std::string bytes = mutated(sound, random);
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

TEST(HostileFiles, Npy) {
  survive(file("alone.npy"), [](const std::string& bytes) {
    const NpyArray array(std::make_shared<TextBytes>(bytes));
    std::vector<std::byte> all(static_cast<size_t>(array.header().elements()) *
                               ops::size_of(array.header().dtype));
    array.read(0, array.header().elements(), all.data());
  });
}

void read_archive(const std::string& bytes) {
  const auto archive = std::make_shared<ZipArchive>(std::make_shared<TextBytes>(bytes));
  for (const std::string& name : archive->names()) {
    const NpyArray array(archive->open(name));
    std::vector<std::byte> all(static_cast<size_t>(array.header().elements()) *
                               ops::size_of(array.header().dtype));
    array.read(0, array.header().elements(), all.data());
  }
}

TEST(HostileFiles, NpzOfStoredArrays) { survive(file("stored.npz"), read_archive); }
TEST(HostileFiles, NpzOfDeflatedArrays) { survive(file("deflated.npz"), read_archive); }

void read_picture(const std::string& bytes) {
  for (const int64_t channels : {1, 3}) {
    const Picture picture = decode_picture(std::as_bytes(std::span(bytes)), channels, "the file");
    std::vector<float> small(static_cast<size_t>(channels) * 4 * 4);
    resize_picture(picture, 4, 4, small.data());
  }
}

TEST(HostileFiles, Png) { survive(file("waves.png"), read_picture); }
TEST(HostileFiles, PngWithAPalette) { survive(file("palette.png"), read_picture); }
TEST(HostileFiles, Jpeg) { survive(file("waves.jpg"), read_picture); }
TEST(HostileFiles, ProgressiveJpeg) { survive(file("progressive.jpg"), read_picture); }

TEST(HostileFiles, Gzip) {
  const tests::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 600; ++i) text += i % 7 == 0 ? "some text" : "aaaaaaaaaa";
  tests::write_gzip(folder / "a.gz", text);
  survive(runtime::read_file(folder / "a.gz"), [](const std::string& bytes) {
    const auto contents = open_gzip(std::make_shared<TextBytes>(bytes));
    read_text(*contents, 0, contents->size());
  });
}

void read_idx(const std::string& images, const std::string& labels) {
  const IdxFolder data(std::make_shared<TextBytes>(images), std::make_shared<TextBytes>(labels));
  std::vector<float> values(static_cast<size_t>(data.features()));
  const std::vector<int64_t> rows{data.rows() - 1};
  data.read_features(
      rows,
      {ops::DType::kFloat32, {1, data.features()}, reinterpret_cast<std::byte*>(values.data())});
}

TEST(HostileFiles, Idx) {
  const std::string labels = tests::idx_header(0x00000801, {4}) + std::string("\0\1\2\3", 4);
  const std::string images = tests::idx_header(0x00000803, {4, 6, 6}) + std::string(4 * 36, 'p');
  survive(images, [&](const std::string& bytes) { read_idx(bytes, labels); });
  survive(labels, [&](const std::string& bytes) { read_idx(images, bytes); });
}

}  // namespace
}  // namespace kerf::apps
