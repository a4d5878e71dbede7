#include "apps/data/matrix_market.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/file.h"
#include "tests/apps/random_matrix.h"
#include "tests/support/errors.h"
#include "tests/support/seeds.h"
#include "tests/support/temporary_folder.h"

namespace kerf::apps {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class MatrixMarket : public testing::Test {
 protected:
  FileBytes file() const { return FileBytes(path_); }
  FileBytes file(const std::string& text) const {
    runtime::write_file_atomic(path_, text);
    return file();
  }
  SparseColumns read() const {
    return read_matrix_market(file(), {0, read_matrix_market_size(file()).rows});
  }
  SparseColumns read(const std::string& text) const {
    runtime::write_file_atomic(path_, text);
    return read();
  }
  template <class Read>
  void expect_refused(const std::string& text, int line, const std::string& why,
                      const Read& read_file) const {
    runtime::write_file_atomic(path_, text);
    const auto error = tests::error_of(read_file);
    ASSERT_TRUE(error) << "accepted, although: " << why << "\n" << text;
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
    EXPECT_EQ(error->where(), format("{}:{}", path_.string(), line)) << text;
    EXPECT_THAT(error->message(), HasSubstr(why));
  }
  void expect_refused(const std::string& text, int line, const std::string& why) const {
    expect_refused(text, line, why, [&] { read(); });
  }

  tests::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "x.mtx";
};

class RandomMatrices : public MatrixMarket, public testing::WithParamInterface<int> {};

TEST_P(RandomMatrices, ComeBackAsTheyWereWritten) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  const SparseColumns matrix = tests::random_matrix(random() % 30, random() % 30, 4, random);
  write_matrix_market(path_, matrix);
  EXPECT_EQ(read(), matrix);
  EXPECT_EQ(read_matrix_market_size(file()),
            (MatrixSize{matrix.rows, matrix.columns, matrix.entries()}));
}

TEST_P(RandomMatrices, AreTheirRowsDividedInAnyWay) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  const SparseColumns matrix = tests::random_matrix(40, 12, 3, random);
  write_matrix_market(path_, matrix);
  const auto cuts = tests::random_cuts(matrix.rows, 2 + random() % 5, random);
  std::vector<SparseColumns> parts;
  for (size_t i = 1; i < cuts.size(); ++i) {
    parts.push_back(read_matrix_market(file(), {cuts[i - 1], cuts[i]}));
    EXPECT_EQ(parts.back().rows, cuts[i] - cuts[i - 1]);
  }
  EXPECT_EQ(tests::stacked(parts), matrix);
}

TEST_P(RandomMatrices, ColumnsComeBackToTheBit) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  std::vector<double> column(random() % 100);
  for (double& value : column) value = tests::random_double(random);
  write_matrix_market(path_, column);
  const std::vector<double> found = read_dense_column(file());
  ASSERT_EQ(found.size(), column.size());
  EXPECT_EQ(std::memcmp(found.data(), column.data(), column.size() * sizeof(double)), 0);
}

TEST_P(RandomMatrices, OfOneColumnAreAColumn) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  const SparseColumns matrix = tests::random_matrix(30, 1, 2, random);
  write_matrix_market(path_, matrix);
  std::vector<double> expected(30);
  for (size_t i = 0; i < matrix.row.size(); ++i)
    expected[static_cast<size_t>(matrix.row[i])] = matrix.values[i];
  EXPECT_EQ(read_dense_column(file()), expected);
}

// One matrix of every kind, written by hand: its entries in any order, letters large and small.
class WrittenByHand {
 public:
  WrittenByHand(std::string values, std::string symmetry, int64_t side, std::mt19937_64& random)
      : values_(std::move(values)), symmetry_(std::move(symmetry)), side_(side) {
    const double mirror = symmetry_ == "skew-symmetric" ? -1 : 1;
    at_.resize(static_cast<size_t>(side * side));
    for (int64_t j = 0; j < side; ++j)
      for (int64_t i = first(j); i < side; ++i) {
        if (random() % 2 == 0) continue;
        double value = tests::random_double(random);
        if (values_ == "pattern") value = 1;
        if (values_ == "integer") value = 1 + static_cast<double>(random() % 9);
        if (value == 0) continue;
        at(i, j) = value;
        if (symmetry_ != "general" && i != j) at(j, i) = mirror * value;
      }
  }

  SparseColumns expected() {
    SparseColumns matrix{side_, side_, {0}, {}, {}};
    for (int64_t j = 0; j < side_; ++j) {
      for (int64_t i = 0; i < side_; ++i)
        if (at(i, j) != 0) {
          matrix.row.push_back(static_cast<int32_t>(i));
          matrix.values.push_back(at(i, j));
        }
      matrix.begins.push_back(matrix.entries());
    }
    return matrix;
  }

  std::string coordinates(std::mt19937_64& random) {
    std::vector<std::string> lines;
    for (int64_t j = 0; j < side_; ++j)
      for (int64_t i = first(j); i < side_; ++i)
        if (at(i, j) != 0)
          lines.push_back(format("{} {}{}", i + 1, j + 1,
                                 values_ == "pattern" ? std::string() : format("\t{}", at(i, j))));
    std::shuffle(lines.begin(), lines.end(), random);
    return format("%%MatrixMarket MATRIX Coordinate {} {}\n% a comment\n\n{} {} {}\n{}\n", values_,
                  symmetry_, side_, side_, lines.size(), fmt::join(lines, "\n"));
  }

  std::string array() {
    std::string text = format("%%matrixmarket matrix array {} {}\r\n%\r\n  {}  {} \r\n", values_,
                              symmetry_, side_, side_);
    for (int64_t j = 0; j < side_; ++j)
      for (int64_t i = first(j); i < side_; ++i) text += format("{}\r\n", at(i, j));
    return text;
  }

 private:
  // The first row of a column that a file has.
  int64_t first(int64_t column) const {
    return symmetry_ == "general" ? 0 : symmetry_ == "symmetric" ? column : column + 1;
  }
  double& at(int64_t row, int64_t column) { return at_[static_cast<size_t>(row * side_ + column)]; }

  std::string values_;
  std::string symmetry_;
  int64_t side_;
  std::vector<double> at_;
};

TEST_P(RandomMatrices, AreTakenInEveryKindOfFile) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  for (const std::string values : {"real", "integer", "pattern"})
    for (const std::string symmetry : {"general", "symmetric", "skew-symmetric"}) {
      if (values == "pattern" && symmetry == "skew-symmetric") continue;
      SCOPED_TRACE(format("{} {}", values, symmetry));
      WrittenByHand matrix(values, symmetry, static_cast<int64_t>(random() % 9), random);
      EXPECT_EQ(read(matrix.coordinates(random)), matrix.expected());
      if (values == "pattern") continue;
      EXPECT_EQ(read(matrix.array()), matrix.expected());
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomMatrices, tests::seeds(1, 20));

TEST_F(MatrixMarket, FilesOfManyPiecesAreReadAcrossThem) {
  std::mt19937_64 random(1);
  const SparseColumns matrix = tests::random_matrix(1500, 400, 4, random);
  write_matrix_market(path_, matrix);
  ASSERT_GT(file().size(), size_t{3} << 20);
  EXPECT_EQ(read(), matrix);
  std::string text = runtime::read_file(path_);
  text.insert(text.find('\n') + 1, "% " + std::string(size_t{3} << 20, 'x') + "\n");
  EXPECT_EQ(read(text), matrix);
}

TEST_F(MatrixMarket, ArraysAreGivenRowByRow) {
  write_matrix_market(path_, std::vector<double>{1, 2, 3, 4, 5, 6}, 2);
  const SparseColumns found = read_matrix_market(file(), {0, 3});
  EXPECT_THAT(found.values, testing::ElementsAre(1, 3, 5, 2, 4, 6));
  EXPECT_THAT(found.begins, testing::ElementsAre(0, 3, 6));
}

TEST_F(MatrixMarket, AnEntryOfZeroIsOneAndAZeroOfAnArrayIsNone) {
  EXPECT_EQ(read("%%MatrixMarket matrix coordinate real general\n2 1 1\n2 1 0").entries(), 1);
  EXPECT_EQ(read("%%MatrixMarket matrix array real general\n2 1\n0\n7").row,
            (std::vector<int32_t>{1}));
}

TEST_F(MatrixMarket, WhatIsNoneIsRefusedByItsLine) {
  const std::string head = "%%MatrixMarket matrix coordinate real general\n";
  expect_refused("", 1, "it is no Matrix Market file");
  expect_refused("1 1 1\n", 1, "it is no Matrix Market file");
  expect_refused("%%MatrixMarket", 1, "expected the object matrix, found the line's end");
  expect_refused("%%MatrixMarket vector coordinate real general\n", 1,
                 "expected the object matrix, found 'vector'");
  expect_refused("%%MatrixMarket matrix list real general\n", 1,
                 "expected the format coordinate or array, found 'list'");
  expect_refused("%%MatrixMarket matrix array complex general\n", 1,
                 "expected the values real or integer or pattern, found 'complex'");
  expect_refused("%%MatrixMarket matrix array real Hermitian\n", 1,
                 "expected the symmetry general or symmetric or skew-symmetric, found 'Hermitian'");
  expect_refused("%%MatrixMarket matrix array real general 5\n", 1, "the line's end, found '5'");
  expect_refused("%%MatrixMarket matrix array pattern general\n1 1\n1\n", 1,
                 "a pattern has coordinates");
  expect_refused("%%MatrixMarket matrix coordinate pattern skew-symmetric\n1 1 0\n", 1,
                 "a pattern has no signs");
  expect_refused(head + "% no more\n", 2, "expected 'ROWS COLUMNS ENTRIES', found the file's end");
  expect_refused(head + "2 2\n", 2, "expected a number of entries from 0 to");
  expect_refused(head + "-1 2 2\n", 2,
                 "expected a number of rows from 0 to 2147483647, found '-1'");
  expect_refused(head + "1 2147483648 2\n", 2, "expected a number of columns");
  expect_refused(head + "2 2 1 1\n", 2, "expected the line's end, found '1'");
  expect_refused(head + "2 2 1000\n1 1 1\n", 2, "it claims 1000 entries, and the file has");
  expect_refused(head + "2 2147483647 0\n", 2, "it claims 2147483647 columns, and the file has");
  expect_refused("%%MatrixMarket matrix array real general\n2147483647 2147483647\n", 2,
                 "it claims 4611686014132420609 entries");
  expect_refused("%%MatrixMarket matrix coordinate real symmetric\n2 3 0\n", 2,
                 "a symmetric matrix is square; this has 2 rows and 3 columns");
}

TEST_F(MatrixMarket, EntriesThatAreNoneAreRefusedByTheirLine) {
  const std::string head = "%%MatrixMarket matrix coordinate real general\n% 2\n3 2 2\n";
  expect_refused(head + "1 1 1\n", 4, "it ends after 1 entries; it claims 2");
  expect_refused(head + "1 1 1\n\n2 2 2\n% fine\n3 1 4\n", 8,
                 "nothing behind its 2 entries, found '3'");
  expect_refused(head + "0 1 1\n", 4, "expected a row from 1 to 3, found '0'");
  expect_refused(head + "4 1 1\n", 4, "expected a row from 1 to 3, found '4'");
  expect_refused(head + "1 1 1\n1 3 1\n", 5, "expected a column from 1 to 2, found '3'");
  expect_refused(head + "99999999999999999999 1 1\n", 4, "expected a row from 1 to 3");
  expect_refused(head + "1.5 1 1\n", 4, "expected a row from 1 to 3, found '1.5'");
  expect_refused(head + "1 1\n", 4, "expected a finite number, found the line's end");
  expect_refused(head + "1 1 1 1\n", 4, "expected the line's end, found '1'");
  expect_refused(head + "1 1 2x\n", 4, "expected a finite number, found '2x'");
  for (const std::string value : {"nan", "-inf", "1e400", "+-1", "+", "0x10", "1,5", "1d3"})
    expect_refused(format("{}1 1 {}\n", head, value), 4,
                   format("expected a finite number, found '{}'", value));
  expect_refused(head + "1 1 \x01\xff" + std::string(100, 'y') + "\n", 4, "found '??yyyy");
  expect_refused("%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 1.5\n", 3,
                 "expected an integer from -9007199254740992 to 9007199254740992, found '1.5'");
  expect_refused("%%MatrixMarket matrix coordinate pattern general\n1 1 1\n1 1 1\n", 3,
                 "expected the line's end, found '1'");
  expect_refused("%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n1 2 1\n", 3,
                 "expected a place on or below the diagonal");
  expect_refused("%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n1 1 1\n", 3,
                 "expected a place below the diagonal");
  expect_refused("%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n", 5,
                 "it ends after 3 entries; it claims 4");
  expect_refused("%%MatrixMarket matrix array real general\n2 1\n1 2\n", 3,
                 "expected the line's end, found '2'");
}

TEST_F(MatrixMarket, APlaceThatIsThereTwiceIsRefusedByBothLines) {
  const std::string text =
      "%%MatrixMarket matrix coordinate real general\n3 2 4\n3 2 1\n1 1 1\n\n2 2 1\n3 2 1\n";
  expect_refused(text, 7, "row 3, column 2 has an entry already, on line 3");
  expect_refused(text, 7, "on line 3", [&] { read_matrix_market(file(), {2, 3}); });
  EXPECT_EQ(read_matrix_market(file(), {0, 2}).entries(), 2);
  expect_refused("%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n3 2 1\n3 2 1\n", 4,
                 "row 3, column 2 has an entry already, on line 3");
  expect_refused("%%MatrixMarket matrix coordinate real general\n3 1 2\n3 1 1\n3 1 1\n", 4,
                 "row 3, column 1 has an entry already, on line 3",
                 [&] { read_dense_column(file()); });
}

TEST_F(MatrixMarket, AColumnIsOneAndNotVast) {
  const auto column = [&] { read_dense_column(file()); };
  expect_refused("%%MatrixMarket matrix array real general\n1 2\n1\n2\n", 2,
                 "it has 2 columns; expected one", column);
  expect_refused("%%MatrixMarket matrix coordinate real general\n2147483647 1 0\n", 2,
                 "it claims 2147483647 rows", column);
}

TEST_F(MatrixMarket, RowsThatItLacksAreRefused) {
  const auto two = file("%%MatrixMarket matrix coordinate real general\n2 1 0\n");
  for (const ops::Range rows : {ops::Range{0, 3}, {-1, 1}, {2, 1}}) {
    const auto error = tests::error_of([&] { read_matrix_market(two, rows); });
    ASSERT_TRUE(error);
    EXPECT_THAT(error->what(), AllOf(HasSubstr("x.mtx"), HasSubstr("it has 2 rows; asked for")));
  }
}

TEST_F(MatrixMarket, WhatIsNotFiniteIsNotWritten) {
  const std::vector<double> column{1, std::nan("")};
  const auto error = tests::error_of([&] { write_matrix_market(path_, column); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->where(), path_.string());
  EXPECT_EQ(error->message(), "value 2 of 2 is nan; a matrix has finite ones");
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

}  // namespace
}  // namespace kerf::apps
