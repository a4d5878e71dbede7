#include "schedmp/training/stored_slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "ops/pack.h"
#include "runtime/error.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::schedmp {
namespace {

using testing::HasSubstr;

const ops::ValueSpec kMatrix{ops::DType::kFloat32, ops::Shape({7, 5})};

// Of a matrix whose elements are 0, 1, 2, ... the bytes of a box.
std::string part_of_matrix(const ops::Box& box) {
  std::vector<float> all(35);
  std::iota(all.begin(), all.end(), 0.0F);
  const ops::Selection selection(ops::Box::whole(2), box, kMatrix);
  std::string bytes(selection.bytes(1), '\0');
  selection.pack(reinterpret_cast<const std::byte*>(all.data()),
                 reinterpret_cast<std::byte*>(bytes.data()), 1);
  return bytes;
}

StoredSlice slice_of(const ops::Box& box) {
  return {kWeights, "fc.weight", kMatrix, box,
          // By a few bytes, which are no whole rows.
          [box](const ByteSink& to) {
            const std::string bytes = part_of_matrix(box);
            for (size_t at = 0; at < bytes.size(); at += 24) to(bytes.substr(at, 24));
          }};
}

ops::Box box_of(const std::string& rows, const std::string& columns) {
  return ops::normalized(
      {{ops::parse_index_set(rows, "test"), ops::parse_index_set(columns, "test")}}, kMatrix.shape);
}

class StoredSlicesTest : public testing::Test {
 protected:
  PlacedPart written(const std::string& name, const std::vector<StoredSlice>& slices) {
    return written(name, slices, kUndivided).at(0);
  }
  std::vector<PlacedPart> written(const std::string& name, const std::vector<StoredSlice>& slices,
                                  int64_t most_bytes) {
    PieceWriter writer(store_, folder_ / name, most_bytes);
    write_slices(slices, writer);
    const SavedPieces saved = writer.finish();
    EXPECT_EQ(saved.failure, "");
    std::vector<PlacedPart> placed;
    for (const SnapshotPart& piece : saved.pieces)
      placed.push_back({piece_file(folder_ / name, placed.size()).string(), piece});
    return placed;
  }
  static std::string read(StoredSlices& slices, const ops::Box& wanted, const RowRange& rows) {
    return slices.read(kWeights, "fc.weight", kMatrix, wanted, rows);
  }
  // Of a file whose metadata say that of its one tensor, which is 7 x 5.
  std::string refusal(const std::string& metadata) {
    const std::filesystem::path file = folder_ / "told";
    write_safetensors(file, {{"a", kMatrix.dtype, kMatrix.shape, std::string(140, '\0')}},
                      {{"kerf_slices", metadata}});
    const auto error = tests::error_of([&] { StoredSlices(store_, {{file.string(), {}}}); });
    return error ? error->what() : "no error";
  }

  tests::TemporaryFolder folder_;
  runtime::LocalStore store_;
};

TEST_F(StoredSlicesTest, AreReadByAnyRowsWhoeverWroteThem) {
  const ops::Box whole = ops::Box::whole(2);
  const std::vector<std::vector<ops::Box>> divisions = {
      {whole},
      {box_of("0-2", "all"), box_of("3-6", "all")},
      {box_of("0,2,4,6", "0-1"), box_of("1,3,5", "0-1"), box_of("all", "2-4")},
      {box_of("0-3", "all"), box_of("2-6", "all"), box_of("all", "1,3")},  // some of it twice
      {whole, whole}};
  for (const auto& division : divisions) {
    std::vector<PlacedPart> parts;
    for (size_t i = 0; i < division.size(); ++i)
      parts.push_back(written("file" + std::to_string(i), {slice_of(division[i])}));
    StoredSlices slices(store_, parts);
    for (int64_t first = 0; first < 7; ++first)
      for (int64_t count = 1; first + count <= 7; ++count)
        EXPECT_EQ(read(slices, whole, {first, count}),
                  part_of_matrix(box_of(
                      std::to_string(first) + "-" + std::to_string(first + count - 1), "all")));
    EXPECT_EQ(slices.read(kWeights, "fc.weight", kMatrix, whole, {1, 3}, 1),
              part_of_matrix(box_of("all", "1-3")));
  }
}

// Of 20 bytes a row, and of columns 8; the scalar has 4.
TEST_F(StoredSlicesTest, AreCutBetweenRowsAndReadAsIfTheyWereNot) {
  const ops::Box whole = ops::Box::whole(2);
  const StoredSlice scalar{
      kWeights, "count", {kMatrix.dtype, {}}, ops::Box::whole(0), [](const ByteSink& to) {
        to("abcd");
      }};
  const std::vector<std::vector<ops::Box>> divisions = {
      {whole},
      {box_of("0,2,4,6", "0-1"), box_of("1,3,5", "0-1"), box_of("all", "2-4")},
      {box_of("0-1,3", "all"), box_of("2,4-6", "all")}};
  for (const auto& division : divisions)
    for (const int64_t most : {1, 8, 24, 39, 40, 41, 100, 143, 144, 145}) {
      SCOPED_TRACE(testing::Message() << division.size() << " boxes, pieces of " << most);
      std::vector<StoredSlice> all{scalar};
      for (const ops::Box& box : division) all.push_back(slice_of(box));
      const std::vector<PlacedPart> pieces = written("pieces", all, most);
      int64_t bytes = 0;
      for (const PlacedPart& piece : pieces) {
        int64_t of_piece = 0;
        int64_t rows = 0;
        for (const NamedTensor& each : read_safetensors(piece.file)) {
          of_piece += static_cast<int64_t>(each.bytes.size());
          rows += each.shape.rank() == 0 ? 1 : each.shape[0];
        }
        EXPECT_TRUE(of_piece <= most || rows == 1) << piece.file;
        EXPECT_GT(of_piece, 0) << piece.file;
        bytes += of_piece;
      }
      EXPECT_EQ(bytes, 144);
      EXPECT_GE(static_cast<int64_t>(pieces.size()) * std::max<int64_t>(most, 20), 144);
      EXPECT_EQ(pieces.size() == 1, most >= 144);
      StoredSlices slices(store_, pieces);
      EXPECT_EQ(read(slices, whole, {0, 7}), part_of_matrix(whole));
      EXPECT_EQ(read(slices, whole, {3, 3}), part_of_matrix(box_of("3-5", "all")));
      EXPECT_EQ(slices.read(kWeights, "count", scalar.whole, scalar.box, {0, 1}), "abcd");
    }
}

TEST_F(StoredSlicesTest, WhatIsWantedAndNotThereIsNamed) {
  StoredSlices slices(store_, {written("one", {slice_of(box_of("0-3", "all"))})});
  EXPECT_THAT(tests::error_of([&] {
                read(slices, ops::Box::whole(2), {2, 4});
              })->what(),
              HasSubstr("no weights of [4-5, all] of 'fc.weight'"));
  EXPECT_EQ(read(slices, box_of("0-3", "all"), {2, 4}).substr(0, 40),
            part_of_matrix(box_of("2-3", "all")));
  EXPECT_TRUE(tests::error_of([&] {
    slices.read(state_kind(0), "fc.weight", kMatrix, ops::Box::whole(2), {0, 1});
  }));
  EXPECT_TRUE(tests::error_of([&] {
    slices.read(kWeights, "fc.weight", {kMatrix.dtype, ops::Shape({7, 6})}, ops::Box::whole(2),
                {0, 1});
  }));
}

// The files of a folder; counts those that are open to read.
class CountingStore final : public runtime::Store {
 public:
  std::unique_ptr<runtime::ReadableFile> open(const std::filesystem::path& path) override {
    return std::make_unique<Counted>(*this, files_.open(path));
  }
  std::unique_ptr<runtime::ReadableFile> find(const std::filesystem::path& path) override {
    return files_.find(path);
  }
  std::unique_ptr<runtime::WritableFile> create(const std::filesystem::path& path) override {
    return files_.create(path);
  }
  std::unique_ptr<runtime::WritableFile> extend(const std::filesystem::path& path,
                                                uint64_t kept) override {
    return files_.extend(path, kept);
  }
  int most_open() const { return most_; }

 private:
  class Counted final : public runtime::ReadableFile {
   public:
    Counted(CountingStore& store, std::unique_ptr<runtime::ReadableFile> file)
        : store_(store), file_(std::move(file)) {
      store_.most_ = std::max(store_.most_, ++store_.open_);
    }
    ~Counted() override { --store_.open_; }
    const std::string& origin() const override { return file_->origin(); }
    uint64_t bytes() const override { return file_->bytes(); }
    void read(uint64_t first, std::span<std::byte> to, ErrorCode code) override {
      file_->read(first, to, code);
    }

   private:
    CountingStore& store_;
    std::unique_ptr<runtime::ReadableFile> file_;
  };

  runtime::LocalStore files_;
  int open_ = 0;
  int most_ = 0;
};

TEST_F(StoredSlicesTest, OneFileIsOpenAtATime) {
  std::vector<PlacedPart> parts;
  for (int row = 0; row < 7; ++row)
    parts.push_back(
        written("file" + std::to_string(row), {slice_of(box_of(std::to_string(row), "all"))}));
  CountingStore store;
  StoredSlices slices(store, parts);
  for (const int64_t first : {0, 4, 0})
    EXPECT_EQ(read(slices, ops::Box::whole(2), {first, 3}),
              part_of_matrix(box_of(kerf::format("{}-{}", first, first + 2), "all")));
  EXPECT_EQ(store.most_open(), 1);
}

TEST_F(StoredSlicesTest, AFileThatBecomesAnotherWhileOthersAreReadIsRefused) {
  const PlacedPart one = written("one", {slice_of(box_of("0-3", "all"))});
  StoredSlices slices(store_, {one, written("other", {slice_of(box_of("4-6", "all"))})});
  read(slices, ops::Box::whole(2), {0, 7});
  std::filesystem::resize_file(one.file, 20);
  const auto error = tests::error_of([&] { read(slices, ops::Box::whole(2), {0, 1}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUsage);
  EXPECT_EQ(error->where(), one.file);
}

// Only what is read: a worker does not go through the files of others.
TEST_F(StoredSlicesTest, AFileThatIsAnotherIsRefusedWhenItIsRead) {
  PlacedPart one = written("one", {slice_of(box_of("0-3", "all"))});
  PlacedPart other = written("other", {slice_of(box_of("4-6", "all"))});
  other.part.checksum ^= 1;
  StoredSlices slices(store_, {one, other});
  EXPECT_EQ(read(slices, ops::Box::whole(2), {0, 4}), part_of_matrix(box_of("0-3", "all")));
  EXPECT_THAT(tests::error_of([&] {
                read(slices, ops::Box::whole(2), {3, 2});
              })->what(),
              HasSubstr("other"));
}

TEST_F(StoredSlicesTest, WhatTheySayOfThemselvesIsNotBelieved) {
  const auto told = [](const std::string& shape, const std::string& box) {
    return R"({"a": {"kind": "weights", "tensor": "t", "shape": )" + shape + R"(, "box": )" + box +
           "}}";
  };
  EXPECT_EQ(refusal(told("[7, 5]", R"(["all", "all"])")), "no error");
  EXPECT_EQ(refusal(told("[9, 5]", R"(["0-2,5-8", "all"])")), "no error");
  for (const std::string& wrong :
       {std::string("["), std::string("{}"), std::string("[]"), told("[7, 5]", R"(["all"])"),
        told("[7]", R"(["all", "all"])"), told("[7, 5]", R"(["0-7", "all"])"),
        told("[7, 5]", R"(["0-5", "all"])"), told("[7, -5]", R"(["all", "all"])"),
        told("[7, 9223372036854775807]", R"(["all", "all"])"),
        told("[7, 5]", R"(["0-99999999999999999999", "all"])"), told("[7, 5]", R"([7, 5])"),
        told("[7.5, 5]", R"(["all", "all"])"), told("7", R"(["all", "all"])"),
        told("[1,1,1,1,1,1,1,1,1,1,7,5]", R"(["all"])"),
        std::string(
            R"({"a": {"kind": 7, "tensor": "t", "shape": [7, 5], "box": ["all", "all"]}})")})
    EXPECT_THAT(refusal(wrong), HasSubstr("told")) << wrong;
}

}  // namespace
}  // namespace kerf::schedmp
