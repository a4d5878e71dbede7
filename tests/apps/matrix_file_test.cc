#include "apps/data/matrix_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/data/matrix_market.h"
#include "runtime/file.h"
#include "tests/apps/csc_members.h"
#include "tests/apps/gzip.h"
#include "tests/apps/random_matrix.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::apps {
namespace {

TEST(MatrixFile, IsReadAsItsNameEnds) {
  const tests::TemporaryFolder folder;
  std::mt19937_64 random(1);
  const SparseColumns matrix = tests::without_zeros(tests::random_matrix(9, 7, 3, random));
  write_matrix_market(folder / "x.mtx", matrix);
  runtime::write_file_atomic(folder / "x.npz", tests::stored_zip(tests::csc_members(matrix, true)));
  runtime::write_file_atomic(folder / "x.csv", tests::table_of(matrix));
  for (const std::string name : {"x.mtx", "x.npz", "x.csv"}) {
    const int64_t entries = name == "x.csv" ? 9 * 7 : matrix.entries();
    EXPECT_EQ(matrix_size(folder / name), (MatrixSize{9, 7, entries}));
    EXPECT_EQ(read_matrix(folder / name, {0, 9}), matrix);
    EXPECT_EQ(read_matrix(folder / name, {4, 4}).entries(), 0);
  }
  const std::vector<double> column{1, 0, -0.1};
  write_matrix_market(folder / "y.mtx", column);
  runtime::write_file_atomic(folder / "y.npy",
                             tests::npy_bytes_of(ops::DType::kFloat64, {3}, column));
  runtime::write_file_atomic(folder / "y.csv", "y\n1\n0\n-0.1\n");
  for (const std::string name : {"y.mtx", "y.npy", "y.csv"})
    EXPECT_EQ(read_column(folder / name), column) << name;
}

TEST(MatrixFile, AnotherEndingIsRefusedByTheKnownOnes) {
  const auto matrix = tests::error_of([] { matrix_size("some/x.txt"); });
  ASSERT_TRUE(matrix);
  EXPECT_EQ(matrix->code(), ErrorCode::kUsage);
  EXPECT_STREQ(matrix->what(),
               "some/x.txt: its ending tells no format of a matrix; known are .mtx, .csv, .npz");
  const auto column = tests::error_of([] { read_column("y.npz"); });
  ASSERT_TRUE(column);
  EXPECT_STREQ(column->what(),
               "y.npz: its ending tells no format of a column; known are .mtx, .csv, .npy");
  const auto none = tests::error_of([] { read_matrix("none", {0, 0}); });
  ASSERT_TRUE(none);
}

}  // namespace
}  // namespace kerf::apps
