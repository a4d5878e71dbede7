#include "apps/data/libsvm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/data/transposed.h"
#include "runtime/file.h"
#include "tests/apps/random_matrix.h"
#include "tests/support/errors.h"
#include "tests/support/seeds.h"
#include "tests/support/temporary_folder.h"

namespace kerf::apps {
namespace {

using testing::HasSubstr;

class Libsvm : public testing::Test {
 protected:
  LabelledRows read(const std::string& text, int64_t columns = 0,
                    std::optional<ops::Range> kept = {}) const {
    runtime::write_file_atomic(path_, text);
    return read_libsvm(FileBytes(path_), columns, kept);
  }
  LibsvmLabels read_labels(const std::string& text) const {
    runtime::write_file_atomic(path_, text);
    return read_libsvm_labels(FileBytes(path_));
  }
  void expect_refused(const std::string& text, int line, const std::string& why,
                      int64_t columns = 0) const {
    const auto error = tests::error_of([&] { read(text, columns); });
    ASSERT_TRUE(error) << "accepted, although: " << why << "\n" << text;
    EXPECT_EQ(error->code(), ErrorCode::kUsage);
    EXPECT_EQ(error->where(), format("{}:{}", path_.string(), line)) << text;
    EXPECT_THAT(error->message(), HasSubstr(why));
  }

  tests::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "x.libsvm";
};

// Row by row.
std::string libsvm_text(const LabelledRows& data) {
  std::vector<std::string> lines;
  for (int64_t i = 0; i < data.rows.columns; ++i) {
    lines.push_back(format("{:+}", data.labels[static_cast<size_t>(i)]));
    for (size_t k = 0; k < data.rows.rows_of(i).size(); ++k)
      lines.back() += format(" {}:{}", data.rows.rows_of(i)[k] + 1, data.rows.values_of(i)[k]);
  }
  return format("# a comment\n{} # the last\n", fmt::join(lines, "\n\n"));
}

class RandomLibsvm : public Libsvm, public testing::WithParamInterface<int> {};

TEST_P(RandomLibsvm, ComesBackAsItWasWritten) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  const SparseColumns x = tests::random_matrix(1 + random() % 40, 1 + random() % 40, 3, random);
  LabelledRows data{transposed(x), {}};
  for (int64_t i = 0; i < x.rows; ++i) data.labels.push_back(tests::random_double(random));
  const std::string text = libsvm_text(data);
  const LabelledRows found = read(text, x.columns);
  EXPECT_EQ(found.rows, data.rows);
  EXPECT_EQ(found.labels, data.labels);
  // Parts of it, one behind the other.
  SparseColumns joined = SparseColumns();
  joined.rows = x.columns;
  const int64_t cut = static_cast<int64_t>(random() % static_cast<uint64_t>(x.rows + 1));
  for (const ops::Range kept : {ops::Range{0, cut}, ops::Range{cut, x.rows}}) {
    const LabelledRows part = read(text, x.columns, kept);
    EXPECT_EQ(std::ssize(part.labels), kept.size());
    for (int64_t i = 0; i < part.rows.columns; ++i) {
      const auto features = part.rows.rows_of(i);
      const auto values = part.rows.values_of(i);
      joined.row.insert(joined.row.end(), features.begin(), features.end());
      joined.values.insert(joined.values.end(), values.begin(), values.end());
      joined.begins.push_back(joined.entries());
      EXPECT_EQ(part.labels[static_cast<size_t>(i)],
                data.labels[static_cast<size_t>(joined.columns++)]);
    }
  }
  EXPECT_EQ(joined, data.rows);
  EXPECT_EQ(read_labels(text).labels, data.labels);
  EXPECT_EQ(read_labels(text).columns, read(text).rows.rows);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomLibsvm, tests::seeds(1, 20));

TEST_F(Libsvm, HasAsManyColumnsAsItsLargestIndexOrAsAreGiven) {
  const std::string text = "+1 3:0.5 7:-2\n-1\n1\t1:1 \r\n";
  const LabelledRows data = read(text);
  EXPECT_EQ(data.labels, (std::vector<double>{1, -1, 1}));
  EXPECT_EQ(data.rows, (SparseColumns{7, 3, {0, 2, 2, 3}, {2, 6, 0}, {0.5, -2, 1}}));
  EXPECT_EQ(read(text, 9).rows.rows, 9);
  EXPECT_EQ(read("").rows, SparseColumns());
  EXPECT_EQ(read_labels(text).columns, 7);
  EXPECT_TRUE(read_labels("# none\n").labels.empty());
}

TEST_F(Libsvm, LooksAtNoMoreThanItIsAskedFor) {
  const std::string text = "x\n1 1:1\n2 1:1\ny\n";
  expect_refused(text, 1, "expected a finite number as the label");
  EXPECT_EQ(read(text, 1, ops::Range{1, 3}).labels, (std::vector<double>{1, 2}));
  const auto error = tests::error_of([&] { read("1 1:1\n", 1, ops::Range{0, 2}); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), HasSubstr("it has 1 rows; asked for were those of [0, 2)"));
}

TEST_F(Libsvm, LabelsAreReadWithoutEntriesButForTheLastIndex) {
  EXPECT_EQ(read_labels("1 x 4:1\n").columns, 4);
  for (const std::string text :
       {"1 1:1\nx 1:1\n", "1 1:1\n1 x\n", "1\n1 0:1\n", "1\n1 2147483647:1\n"}) {
    const auto error = tests::error_of([&] { read_labels(text); });
    ASSERT_TRUE(error) << text;
    EXPECT_EQ(error->where(), format("{}:2", path_.string()));
  }
}

TEST_F(Libsvm, WhatIsNoneIsRefusedByItsLine) {
  expect_refused("1 1:1\nx 1:1\n", 2, "expected a finite number as the label, found 'x'");
  expect_refused("nan 1:1\n", 1, "expected a finite number as the label, found 'nan'");
  expect_refused("1,2 1:1\n", 1, "expected a finite number as the label, found '1,2'");
  expect_refused("1:1\n", 1, "expected a finite number as the label, found '1:1'");
  for (const std::string entry : {"1", "1:", "qid:1", "1.5:1", ":1", "1;1"})
    expect_refused("1 " + entry + "\n", 1, "expected INDEX:VALUE, found '" + entry + "'");
  expect_refused("1 1: 1\n", 1, "expected INDEX:VALUE, found '1:'");
  expect_refused("1 1:x\n", 1, "expected a finite value behind the ':', found 'x'");
  expect_refused("1 1:inf\n", 1, "expected a finite value behind the ':', found 'inf'");
  expect_refused("1 1:1:1\n", 1, "expected a finite value behind the ':', found '1:1'");
  expect_refused("# one\n1 0:1\n", 2, "expected an index from 1 to 2147483647, found '0:1'");
  expect_refused("1 -1:1\n", 1, "expected an index from 1 to");
  expect_refused("1 3:1 3:2\n", 1, "expected an index from 4 to 2147483647, found '3:2'");
  expect_refused("1 3:1 2:2\n", 1, "expected an index from 4 to 2147483647, found '2:2'");
  expect_refused("1 6:1\n", 1, "expected an index from 1 to 5, found '6:1'", 5);
  expect_refused("1 2147483648:1\n", 1, "expected an index from 1 to 2147483647");
  expect_refused("1 2147483647:1\n", 1, "index 2147483647 is beyond what a file of 15 bytes");
}

}  // namespace
}  // namespace kerf::apps
