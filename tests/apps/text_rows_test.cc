#include "apps/data/text_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/file.h"
#include "tests/apps/rows_read.h"
#include "tests/support/errors.h"
#include "tests/support/temporary_folder.h"

namespace kerf::apps {
namespace {

using schedmp::Split;
using testing::ElementsAre;
using testing::HasSubstr;
using tests::error_of;
using tests::whole_numbers;

class Text : public testing::Test {
 protected:
  std::string name(const std::string& sizes, const std::string& text) {
    runtime::write_file_atomic(folder_ / "text", text);
    return sizes + ":" + (folder_ / "text").string();
  }
  tests::TemporaryFolder folder_;
};

TEST_F(Text, OfBytesIsFollowedByBytes) {
  std::string text;
  for (int i = 0; i < 83; ++i) text += static_cast<char>(200 + i);
  const std::string of = name("4", text);
  const auto opened = open_text(TokensOf::kBytes, of, Split::kTrain);
  const TextRows& train = *opened;
  const auto tests = open_text(TokensOf::kBytes, of, Split::kTest);
  const TextRows& test = *tests;
  EXPECT_EQ(train.rows(), 18);
  EXPECT_EQ(test.rows(), 2);
  EXPECT_EQ(train.classes(), 256);
  EXPECT_THAT(whole_numbers(train, {13, 0}, false),
              ElementsAre(252, 253, 254, 255, 200, 201, 202, 203));
  EXPECT_THAT(whole_numbers(train, {13}), ElementsAre(253, 254, 255, 0));
  EXPECT_THAT(whole_numbers(test, {1}), ElementsAre((200 + 77) % 256, 22, 23, 24));
}

// the 4 times, the line's end and cat 3 times, sat twice; the others once.
TEST_F(Text, OfWordsIsNumberedByHowCommonTheyAre) {
  const std::string of = name("2x5", "the cat\tsat  the cat\nthe dog sat\nthe cat a\n");
  OpenWords words;
  const auto opened = open_text(TokensOf::kWords, of, Split::kTrain, {}, &words);
  const TextRows& train = *opened;
  const auto tests = open_text(TokensOf::kWords, of, Split::kTest, {}, &words);
  const TextRows& test = *tests;
  EXPECT_EQ(train.rows(), 5);
  EXPECT_EQ(train.held_bytes(), 0);
  EXPECT_THAT(whole_numbers(train, {0, 1, 2, 3, 4}, false),
              ElementsAre(1, 3, 4, 1, 3, 2, 1, 0, 4, 2));
  EXPECT_THAT(whole_numbers(train, {4}), ElementsAre(2, 1));
  EXPECT_THAT(whole_numbers(test, {0}, false), ElementsAre(1, 3));
  EXPECT_THAT(whole_numbers(test, {0}), ElementsAre(3, 0));
  EXPECT_EQ(train.held_bytes(), 14 * 4);
  EXPECT_EQ(test.held_bytes(), 0) << "they are the same words";
}

TEST_F(Text, OfWordsIsGoneThroughOnceForBothSplits) {
  const std::string of = name("2x5", "the cat sat the cat the dog sat the cat a b c d\n");
  OpenWords words;
  int64_t reads = 0;
  const schedmp::DataRequest request{[&] { ++reads; }};
  const auto open = [&](Split split) {
    return open_text(TokensOf::kWords, of, split, request, &words);
  };
  const auto train = open(Split::kTrain);
  EXPECT_EQ(reads, 1) << "it said that it was at work";
  const auto test = open(Split::kTest);
  EXPECT_EQ(reads, 1);
  test->prepare({});
  EXPECT_EQ(reads, 3) << "counted, and numbered";
  whole_numbers(*train, {0}, false);
  whole_numbers(*test, {0});
  EXPECT_EQ(reads, 3);
  EXPECT_EQ(train->held_bytes() + test->held_bytes(), 15 * 4);
}

TEST_F(Text, OfWordsIsNumberedAsTheWeightsWere) {
  const std::string of = name("2x5", "the cat sat\nthe \xff cat sat on\n");
  const auto plain = open_text(TokensOf::kWords, of, Split::kTrain);
  const schedmp::Numbering mine = plain->numbering();
  EXPECT_EQ(mine.what, "words");
  EXPECT_THAT(mine.names, ElementsAre("\n", "cat", "sat", "the"));
  const schedmp::Numbering odd{"words", {"sat", "\xff", "the", "\n"}};
  EXPECT_EQ(schedmp::read_numbering(schedmp::write_numbering(odd), "here"), odd);
  const auto given = open_text(TokensOf::kWords, of, Split::kTrain, {{}, nullptr, odd});
  EXPECT_EQ(given->numbering(), odd);
  EXPECT_NE(given->fingerprint(), plain->fingerprint());
  EXPECT_THAT(whole_numbers(*given, {0, 1, 2}, false), ElementsAre(3, 0, 1, 4, 3, 2));
  const schedmp::Numbering many{"words", {"a", "b", "c", "d", "e"}};
  EXPECT_THAT(error_of([&] {
                open_text(TokensOf::kWords, of, Split::kTrain, {{}, nullptr, many});
              })->what(),
              HasSubstr("the weights were trained by 5 words, but the model has numbers for 4"));
}

TEST_F(Text, WhatIsTooShortIsNamed) {
  const auto complaint = [&](const std::string& of) {
    const auto error = error_of([&] { open_text(TokensOf::kBytes, of, Split::kTrain); });
    return error ? std::string(error->what()) : "";
  };
  EXPECT_THAT(complaint(name("4", "12345678")), HasSubstr("it has 8 tokens"));
  EXPECT_THAT(complaint(name("4", "")), HasSubstr("it has 0 tokens"));
  EXPECT_EQ(complaint(name("4", "123456789")), "");
  EXPECT_THAT(complaint("4:/nowhere"), HasSubstr("/nowhere"));
  EXPECT_THAT(complaint("0:/nowhere"), HasSubstr("\"0\": expected LENGTH:FILE"));
  EXPECT_THAT(complaint("4x256:/nowhere"), HasSubstr("\"4x256\": expected LENGTH:FILE"));
  EXPECT_THAT(error_of([&] { open_text(TokensOf::kWords, "4x0:/nowhere", Split::kTrain); })->what(),
              HasSubstr("\"4x0\": expected LENGTHxVOCABULARY:FILE"));
}

}  // namespace
}  // namespace kerf::apps
