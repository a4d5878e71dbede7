#include "apps/data/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::apps {
namespace {

using ops::DType;
using testing::HasSubstr;

constexpr size_t kTypes = 13;

std::string with_head(const std::string& literal, const std::string& elements = {}) {
  std::string text = literal + "\n";
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(text.size()) + '\0' + text +
         elements;
}

class NpyFiles : public testing::Test {
 protected:
  void expect_refused(const std::string& bytes, const std::string& why) const {
    const auto path = folder_ / "a.npy";
    runtime::write_file_atomic(path, bytes);
    const auto error = tests::error_of([&] { NpyArray array(path); });
    ASSERT_TRUE(error) << "accepted, although: " << why;
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
    EXPECT_EQ(error->where(), path.string());
    EXPECT_THAT(error->message(), HasSubstr(why));
  }
  tests::TemporaryFolder folder_;
};

TEST_F(NpyFiles, EveryTypeAndShapeComesBackAsItWas) {
  for (size_t type = 0; type < kTypes; ++type)
    for (const std::vector<int64_t>& extents :
         std::vector<std::vector<int64_t>>{{}, {5}, {3, 4}, {2, 1, 3}, {0, 7}}) {
      const auto dtype = static_cast<DType>(type);
      int64_t elements = 1;
      for (const int64_t extent : extents) elements *= extent;
      std::vector<std::byte> bytes(static_cast<size_t>(elements) * ops::size_of(dtype));
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(3 * i + type);
      const auto path = folder_ / "all.npy";
      write_npy(path, {dtype, ops::Shape(extents), bytes.data()});
      const NpyArray array(path);
      EXPECT_EQ(array.header().dtype, dtype);
      EXPECT_EQ(array.header().extents, extents);
      EXPECT_EQ(array.header().bytes % 64, 0U);
      std::vector<std::byte> found(bytes.size());
      array.read(0, elements, found.data());
      EXPECT_EQ(found, bytes);
    }
}

TEST_F(NpyFiles, PiecesAreReadFromWhereTheyLie) {
  std::vector<int32_t> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), 0);
  write_npy(folder_ / "a.npy",
            {DType::kInt32, {100, 10}, reinterpret_cast<std::byte*>(numbers.data())});
  std::vector<int32_t> piece(7);
  NpyArray(folder_ / "a.npy").read(990, 7, reinterpret_cast<std::byte*>(piece.data()));
  EXPECT_EQ(piece, (std::vector<int32_t>{990, 991, 992, 993, 994, 995, 996}));
}

// numpy 1.24: numpy.save of arange(3, dtype='<f4'), its first bytes.
TEST_F(NpyFiles, AreNumpys) {
  std::string expected = std::string("\x93NUMPY\x01\x00\x76\x00", 10) +
                         "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
  expected.resize(127, ' ');
  EXPECT_EQ(npy_header(DType::kFloat32, std::vector<int64_t>{3}), expected + "\n");
}

TEST_F(NpyFiles, AnyOrderOfKeysAndEitherQuoteIsTaken) {
  const NpyHeader header = parse_npy_header(
      with_head("{\"shape\":(2, 3),\"fortran_order\":False ,'descr':'|i1'}"), "it");
  EXPECT_EQ(header.dtype, DType::kInt8);
  EXPECT_EQ(header.extents, (std::vector<int64_t>{2, 3}));
}

TEST_F(NpyFiles, OthersAreRefusedWithThePlace) {
  expect_refused("", "it is no .npy file");
  expect_refused("\x93NUMPZ", "it is no .npy file");
  expect_refused(std::string("\x93NUMPY\x01\x00", 8), "it is truncated");
  expect_refused(std::string("\x93NUMPY\x04\x00\x01\x00\n", 11), "its version is 4.0");
  expect_refused(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{", 13),
                 "its header claims 4294967295 bytes");
  expect_refused(with_head("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"),
                 "announces 12 bytes of elements, found 0");
  expect_refused(with_head("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "12345"),
                 "announces 4 bytes of elements, found 5");
  expect_refused(with_head("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }"),
                 "byte 25 of its header: its elements are none of <f4");
  expect_refused(with_head("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }"),
                 "its elements are records");
  expect_refused(with_head("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2), }"),
                 "Fortran's order");
  expect_refused(with_head("{'descr': '<f4', 'fortran_order': False, 'shape': (1, -2), }"),
                 "expected a number of indices");
  expect_refused(
      with_head("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }"),
      "it claims too many elements");
  expect_refused(with_head("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False}"),
                 "once each");
  expect_refused(with_head("{'descr': '<f4', 'fortran_order': False}"), "it lacks one of");
  expect_refused(with_head("{'descr': '<f4', 'fortran_order': False, 'shape': (), } x"),
                 "nothing behind");
}

TEST_F(NpyFiles, AWriterThatLacksElementsLeavesNothing) {
  {
    NpyWriter writer(folder_ / "b.npy", DType::kFloat32, std::vector<int64_t>{2});
    writer.write(std::vector<std::byte>(4));
    EXPECT_TRUE(tests::error_of([&] { writer.commit(); }));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

}  // namespace
}  // namespace kerf::apps
