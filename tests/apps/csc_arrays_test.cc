#include "apps/data/csc_arrays.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/file.h"
#include "tests/apps/csc_members.h"
#include "tests/apps/gzip.h"
#include "tests/apps/random_matrix.h"
#include "tests/support/errors.h"
#include "tests/support/seeds.h"
#include "tests/support/temporary_folder.h"

namespace kerf::apps {
namespace {

using ops::DType;
using testing::HasSubstr;
using Members = std::map<std::string, std::string>;

class CscArrays : public testing::Test {
 protected:
  std::shared_ptr<const ByteSource> file(const std::string& bytes) const {
    runtime::write_file_atomic(path_, bytes);
    return std::make_shared<FileBytes>(path_);
  }
  SparseColumns read(const Members& members) const {
    const auto archive = file(tests::stored_zip(members));
    return read_csc_arrays(archive, {0, read_csc_size(archive).rows});
  }
  void expect_refused(Members members, const std::string& name, const std::string& contents,
                      const std::string& why) const {
    members[name] = contents;
    const auto error = tests::error_of([&] { read(members); });
    ASSERT_TRUE(error) << "accepted, although: " << why;
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
    EXPECT_EQ(error->where(), path_.string() + ": " + name);
    EXPECT_THAT(error->message(), HasSubstr(why));
  }
  void expect_no_column(const std::string& bytes, const std::string& why) const {
    const auto error = tests::error_of([&] { read_column_array(file(bytes)); });
    ASSERT_TRUE(error) << "accepted, although: " << why;
    EXPECT_EQ(error->where(), path_.string());
    EXPECT_THAT(error->message(), HasSubstr(why));
  }

  tests::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "x";
};

class RandomCscArrays : public CscArrays, public testing::WithParamInterface<int> {};

TEST_P(RandomCscArrays, AreTheMatrixThatTheyWere) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  SparseColumns matrix = tests::random_matrix(random() % 40, random() % 40, 3, random);
  EXPECT_EQ(read(tests::csc_members(matrix, true)), matrix);
  for (double& value : matrix.values)
    value = std::isfinite(static_cast<float>(value)) ? static_cast<float>(value) : 1;
  EXPECT_EQ(read(tests::csc_members(matrix, false)), matrix);
}

TEST_P(RandomCscArrays, AreTheirRowsDividedInAnyWay) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  const SparseColumns matrix = tests::random_matrix(40, 12, 3, random);
  const auto archive = file(tests::stored_zip(tests::csc_members(matrix, true)));
  const auto cuts = tests::random_cuts(matrix.rows, 2 + random() % 5, random);
  std::vector<SparseColumns> parts;
  for (size_t i = 1; i < cuts.size(); ++i)
    parts.push_back(read_csc_arrays(archive, {cuts[i - 1], cuts[i]}));
  EXPECT_EQ(tests::stacked(parts), matrix);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomCscArrays, tests::seeds(1, 20));

TEST_F(CscArrays, OfManyPiecesAreReadAcrossThem) {
  std::mt19937_64 random(1);
  SparseColumns matrix = tests::random_matrix(1000, 400, 2, random);
  for (double& value : matrix.values) value = static_cast<float>(1 + value / 1e308);
  EXPECT_EQ(read(tests::csc_members(matrix, true)), matrix);
  EXPECT_EQ(read(tests::csc_members(matrix, false)), matrix);
}

TEST_F(CscArrays, AreRefusedByTheMember) {
  using tests::npy_bytes_of;
  const Members sound = tests::csc_members({3, 2, {0, 2, 3}, {0, 2, 1}, {1, 2, 3}}, true);
  EXPECT_EQ(read(sound).entries(), 3);
  expect_refused(sound, "format.npy", tests::npy_text("csr"), "expected b'csc'; save .tocsc()");
  expect_refused(sound, "format.npy", "", "expected b'csc'");
  expect_refused(sound, "shape.npy", npy_bytes_of({3}), "its shape is (1); expected (2)");
  expect_refused(sound, "shape.npy", npy_bytes_of({-1, 2}), "from 0 to 2147483647, found -1");
  expect_refused(sound, "shape.npy", npy_bytes_of(DType::kFloat64, {2}, std::vector<double>{3, 2}),
                 "its elements are of float64; expected int32 or int64");
  expect_refused(sound, "indptr.npy", npy_bytes_of({0, 3}), "its shape is (2); expected (3)");
  expect_refused(sound, "indptr.npy", npy_bytes_of({1, 2, 3}), "it begins with 1; expected 0");
  expect_refused(sound, "indptr.npy", npy_bytes_of({0, 4, 3}), "element 2 is 3, less than");
  expect_refused(sound, "indptr.npy", npy_bytes_of({0, 2, 4}), "it ends with 4; expected 3");
  expect_refused(sound, "indptr.npy", npy_bytes_of({0, 1, 2}), "it ends with 2; expected 3");
  expect_refused(sound, "indices.npy", npy_bytes_of({0, 2}), "its shape is (2); expected (3)");
  expect_refused(sound, "indices.npy", npy_bytes_of({0, 3, 1}),
                 "element 1: expected a row below 3, found 3");
  expect_refused(sound, "indices.npy", npy_bytes_of({-1, 2, 1}),
                 "element 0: expected a row below 3, found -1");
  expect_refused(sound, "indices.npy", npy_bytes_of({2, 0, 1}),
                 "element 1: row 0 of column 0 comes behind row 2; save the matrix after "
                 ".sum_duplicates()");
  expect_refused(sound, "indices.npy", npy_bytes_of({2, 2, 1}), "row 2 of column 0 comes behind");
  expect_refused(sound, "data.npy",
                 npy_bytes_of(DType::kFloat64, {3}, std::vector<double>{1, 2, std::nan("")}),
                 "element 2: expected a finite number, found nan");
  expect_refused(sound, "data.npy", npy_bytes_of({1, 2, 3}), "expected float32 or float64");
  expect_refused(sound, "data.npy",
                 npy_bytes_of(DType::kFloat64, {3, 1}, std::vector<double>{1, 2, 3}),
                 "its shape is (3, 1); expected (3), one axis");
}

TEST_F(CscArrays, ThatLackOneAreRefused) {
  for (const std::string name : {"data.npy", "indices.npy", "indptr.npy", "shape.npy"}) {
    Members members = tests::csc_members({3, 2, {0, 2, 3}, {0, 2, 1}, {1, 2, 3}}, true);
    members.erase(name);
    const auto error = tests::error_of([&] { read(members); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->where(), path_.string() + ": " + name);
  }
}

TEST_F(CscArrays, AColumnIsAnArrayOfOneOrTwoAxes) {
  const std::vector<double> numbers{1, -0.5, 1e300};
  EXPECT_EQ(read_column_array(file(tests::npy_bytes_of(DType::kFloat64, {3}, numbers))), numbers);
  EXPECT_EQ(read_column_array(file(tests::npy_bytes_of(DType::kFloat64, {3, 1}, numbers))),
            numbers);
  EXPECT_EQ(read_column_array(
                file(tests::npy_bytes_of(DType::kFloat32, {2}, std::vector<float>{0.5, 3}))),
            (std::vector<double>{0.5, 3}));
  expect_no_column(tests::npy_bytes_of(DType::kFloat64, {1, 3}, numbers),
                   "its shape is (1, 3); expected (N) or (N, 1)");
  expect_no_column(tests::npy_bytes_of({1, 2}), "its elements are of int64");
  expect_no_column(tests::npy_bytes_of(DType::kFloat32, {2}, std::vector<float>{0, -HUGE_VALF}),
                   "element 1: expected a finite number, found -inf");
}

}  // namespace
}  // namespace kerf::apps
