#include "apps/data/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "runtime/file.h"
#include "tests/apps/random_matrix.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::apps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Csv : public testing::Test {
 protected:
  const FileBytes& of(const std::string& text) {
    runtime::write_file_atomic(path_, text);
    return *(file_ = std::make_unique<FileBytes>(path_));
  }
  void expect_refused(const std::string& text, int line, const std::string& why) {
    const auto error = tests::error_of([&] { read_csv_size(of(text)); });
    ASSERT_TRUE(error) << "accepted, although: " << why << "\n" << text;
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
    EXPECT_EQ(error->where(), format("{}:{}", path_.string(), line)) << text;
    EXPECT_THAT(error->message(), HasSubstr(why));
  }

  tests::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "x.csv";
  std::unique_ptr<FileBytes> file_;
};

TEST_F(Csv, IsReadRowsByRows) {
  std::mt19937_64 random(3);
  const SparseColumns matrix = tests::without_zeros(tests::random_matrix(11, 6, 2, random));
  const std::string text = tests::table_of(matrix);
  for (const std::string& names :
       {std::string(), std::string("a, b,\"c d\",d,e5,f\r\n"), std::string("\xef\xbb\xbf")}) {
    const FileBytes& file = of(names + text);
    EXPECT_EQ(read_csv_size(file), (MatrixSize{11, 6, 66}));
    EXPECT_EQ(read_csv(file, {0, 11}), matrix);
    const SparseColumns some = read_csv(file, {4, 9});
    EXPECT_EQ(some.rows, 5);
    for (int64_t j = 0; j < 6; ++j)
      for (size_t i = 0; i < matrix.rows_of(j).size(); ++i) {
        const int32_t row = matrix.rows_of(j)[i];
        if (row < 4 || row >= 9) continue;
        const auto rows = some.rows_of(j);
        const auto found = std::find(rows.begin(), rows.end(), row - 4);
        ASSERT_NE(found, rows.end());
        EXPECT_EQ(some.values_of(j)[static_cast<size_t>(found - rows.begin())],
                  matrix.values_of(j)[i]);
      }
  }
}

TEST_F(Csv, TakesNumbersInAllTheirForms) {
  EXPECT_THAT(read_csv_column(of("name\n\n +1 \n-2.5e3\r\n\t.5\n")), ElementsAre(1, -2500, 0.5));
  EXPECT_THAT(read_csv_column(of("1\n2")), ElementsAre(1, 2)) << "no names, no last line's end";
  EXPECT_EQ(read_csv_size(of("")), MatrixSize{});
  EXPECT_EQ(read_csv_size(of("a,b\n")), (MatrixSize{0, 2, 0}));
}

TEST_F(Csv, RefusesWhatIsNoTableAtItsLine) {
  expect_refused("1,2\n3\n", 2, "it has 1 field; the line before it has 2");
  expect_refused("a,b\n1,2,3\n", 2, "it has 3 fields; the line before it has 2");
  expect_refused("1,2\n3,x\n", 2, "expected a finite number, found 'x'");
  expect_refused("1,2\n3,\n", 2, "expected a finite number");
  expect_refused("1\nnan\n", 2, "expected a finite number");
  expect_refused("1\n1e999\n", 2, "expected a finite number");
  expect_refused("a\n\n\"1\"\n", 3, "expected a finite number");
  for (const char* first : {"5,,3", "nan,1", "1e999,2", "1,x", "2a,b", "inf,b"})
    expect_refused(std::string(first) + "\n", 1, "expected a finite number");
}

TEST_F(Csv, RefusesRowsAndColumnsThatItHasNot) {
  EXPECT_TRUE(tests::error_of([&] { read_csv(of("1\n2\n"), {0, 3}); }));
  const auto error = tests::error_of([&] { read_csv_column(of("1,2\n")); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), HasSubstr("it has 2 columns; expected one"));
}

}  // namespace
}  // namespace kerf::apps
