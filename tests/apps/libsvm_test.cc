#include "apps/data/libsvm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  LabelledColumns read(const std::string& text, int64_t columns = 0) const {
    runtime::write_file_atomic(path_, text);
    return read_libsvm(FileBytes(path_), columns);
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
std::string libsvm_text(const LabelledColumns& data) {
  std::vector<std::string> lines;
  for (const double label : data.labels) lines.push_back(format("{:+}", label));
  for (int64_t j = 0; j < data.x.columns; ++j)
    for (size_t i = 0; i < data.x.rows_of(j).size(); ++i)
      lines[static_cast<size_t>(data.x.rows_of(j)[i])] +=
          format(" {}:{}", j + 1, data.x.values_of(j)[i]);
  return format("# a comment\n{} # the last\n", fmt::join(lines, "\n\n"));
}

class RandomLibsvm : public Libsvm, public testing::WithParamInterface<int> {};

TEST_P(RandomLibsvm, ComesBackAsItWasWritten) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  LabelledColumns data{tests::random_matrix(1 + random() % 40, 1 + random() % 40, 3, random), {}};
  for (int64_t i = 0; i < data.x.rows; ++i) data.labels.push_back(tests::random_double(random));
  const LabelledColumns found = read(libsvm_text(data), data.x.columns);
  EXPECT_EQ(found.x, data.x);
  EXPECT_EQ(found.labels, data.labels);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomLibsvm, tests::seeds(1, 20));

TEST_F(Libsvm, HasAsManyColumnsAsItsLargestIndexOrAsAreGiven) {
  const std::string text = "+1 3:0.5 7:-2\n-1\n1\t1:1 \r\n";
  const LabelledColumns data = read(text);
  EXPECT_EQ(data.labels, (std::vector<double>{1, -1, 1}));
  EXPECT_EQ(data.x, (SparseColumns{3, 7, {0, 1, 1, 2, 2, 2, 2, 3}, {2, 0, 0}, {1, 0.5, -2}}));
  EXPECT_EQ(read(text, 9).x.columns, 9);
  EXPECT_EQ(read("").x, SparseColumns());
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
