#include "apps/data/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "runtime/file.h"
#include "tests/support/errors.h"
#include "tests/support/seeds.h"
#include "tests/support/temporary_folder.h"

namespace kerf::apps {
namespace {

using testing::HasSubstr;

class CorpusFile : public testing::Test {
 protected:
  FileBytes file(const std::string& text) const {
    runtime::write_file_atomic(path_, text);
    return FileBytes(path_);
  }
  // By whoever reads it.
  void expect_refused(const std::string& text, int line, const std::string& why, int64_t words) {
    const FileBytes bytes = file(text);
    const int64_t known = words > 0 ? words : 100;
    for (const auto& error :
         {tests::error_of([&] { count_tokens(bytes, words); }), tests::error_of([&] {
            read_documents(bytes, known, {0, INT64_MAX});
          })}) {
      ASSERT_TRUE(error) << "accepted, although: " << why << "\n" << text;
      EXPECT_EQ(error->code(), ErrorCode::kUsage);
      EXPECT_EQ(error->where(), format("{}:{}", path_.string(), line)) << text;
      EXPECT_THAT(error->message(), HasSubstr(why));
    }
  }

  tests::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "corpus.txt";
};

class RandomCorpus : public CorpusFile, public testing::WithParamInterface<int> {};

TEST_P(RandomCorpus, ComesBackAsItWasWritten) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
  std::vector<std::vector<WordCount>> documents(1 + random() % 30);
  std::map<int32_t, int64_t> of_words;
  std::string text;
  for (auto& document : documents) {
    std::map<int32_t, int32_t> counts;
    for (auto left = random() % 12; left > 0; --left)
      counts[static_cast<int32_t>(random() % 50)] += 1 + static_cast<int32_t>(random() % 3);
    for (const auto& [word, count] : counts) {
      document.push_back({word, count});
      of_words[word] += count;
    }
    std::shuffle(document.begin(), document.end(), random);
    for (const WordCount& each : document) text += format(" {}:{}", each.word, each.count);
    text += random() % 2 == 0 ? "\r\n" : "\n";
  }
  const FileBytes bytes = file(text);
  const TokenCounts tokens = count_tokens(bytes);
  ASSERT_EQ(tokens.of_documents.size(), documents.size());
  int64_t all = 0;
  for (size_t word = 0; word < tokens.of_words.size(); ++word) {
    EXPECT_EQ(tokens.of_words[word], of_words[static_cast<int32_t>(word)]);
    all += tokens.of_words[word];
  }
  EXPECT_EQ(tokens.all, all);
  const auto begin = static_cast<int64_t>(random() % documents.size());
  const int64_t end = begin + static_cast<int64_t>(random() % 10);
  const Corpus some = read_documents(bytes, 50, {begin, end});
  ASSERT_EQ(some.documents(), std::min(end, std::ssize(documents)) - begin);
  for (int64_t d = 0; d < some.documents(); ++d) {
    const auto& expected = documents[static_cast<size_t>(begin + d)];
    EXPECT_THAT(some.document(d), testing::ElementsAreArray(expected));
    int64_t length = 0;
    for (const WordCount& each : expected) length += each.count;
    EXPECT_EQ(tokens.of_documents[static_cast<size_t>(begin + d)], length);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomCorpus, tests::seeds(1, 20));

TEST_F(CorpusFile, HasAsManyWordsAsTheLargestNumberOrAsAreGiven) {
  const FileBytes bytes = file("3:1 0:2\n\n7:1");
  EXPECT_EQ(count_tokens(bytes).of_words, (std::vector<int64_t>{2, 0, 0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(count_tokens(bytes).of_documents, (std::vector<int64_t>{3, 0, 1}));
  EXPECT_EQ(count_tokens(bytes, 10).of_words.size(), 10);
  EXPECT_EQ(count_tokens(file("")).all, 0);
}

TEST_F(CorpusFile, WhatIsNoneIsRefusedByItsLine) {
  for (const std::string entry : {"x", "1", "1:", "1.5:1", ":1", "1;1", "word:1", "nan:1"})
    expect_refused("1:1\n" + entry + "\n", 2, "expected WORD:COUNT, found '" + entry + "'", 0);
  expect_refused("1: 1\n", 1, "expected WORD:COUNT, found '1:'", 0);
  for (const std::string count : {"0", "-1", "1.5", "x", "nan", "2147483648", "1:1"})
    expect_refused("\n1:" + count + "\n", 2,
                   "expected a count from 1 to 2147483647 behind the ':', found '" + count + "'",
                   0);
  expect_refused("-1:1\n", 1, "expected a word from 0 to", 0);
  expect_refused("2147483647:1\n", 1, "expected a word from 0 to", 0);
  expect_refused("5:1\n", 1, "expected a word from 0 to 4, found '5:1'", 5);
  expect_refused("5:1 3:1 5:2\n", 1, "word 5 is there twice", 0);
  expect_refused("1:2000000000\n1:147483648\n", 2, "more than 2147483647 tokens", 0);
  const FileBytes far = file("2147483640:1\n");
  EXPECT_THAT(tests::error_of([&] { count_tokens(far); })->message(),
              HasSubstr("word 2147483640 is beyond what a file of 13 bytes may claim"));
}

TEST_F(CorpusFile, VocabulariesHaveAWordALine) {
  EXPECT_EQ(read_vocabulary(file("one\r\n two\ndrei")),
            (std::vector<std::string>{"one", "two", "drei"}));
  for (const auto& [text, why] : {std::pair("a\n\nb", "found the line's end"), {"a\nb c", "'c'"}}) {
    const FileBytes bytes = file(text);
    const auto error = tests::error_of([&] { read_vocabulary(bytes); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->where(), format("{}:2", path_.string()));
    EXPECT_THAT(error->message(), HasSubstr(why));
  }
}

}  // namespace
}  // namespace kerf::apps
