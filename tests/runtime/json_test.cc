#include "runtime/json.h"

#include <gmock/gmock.h>

#include <random>

#include "tests/support/errors.h"

namespace kerf {
namespace {

using testing::HasSubstr;

std::optional<Error> error_in(const std::string& text, size_t max_depth = 64) {
  return tests::error_of([&] { parse_json(text, "plan.json", max_depth); });
}

TEST(ParseJson, KeepsValuesAndTheOrderOfKeys) {
  const std::string text = R"({"z":1,"a":[true,null,-2.5,"\u00e9"],"m":{"y":{},"x":[]}})";
  const Json value = parse_json(text, "plan.json");
  EXPECT_EQ(value.dump(-1, ' ', true), text);
}

TEST(ParseJson, TakesEveryInt64) {
  EXPECT_EQ(parse_json("9223372036854775807", "x").get<int64_t>(),
            std::numeric_limits<int64_t>::max());
  EXPECT_EQ(parse_json("-9223372036854775808", "x").get<int64_t>(),
            std::numeric_limits<int64_t>::min());
}

struct Bad {
  const char* text;
  const char* where;
  const char* message;
};

class BadJson : public testing::TestWithParam<Bad> {};

TEST_P(BadJson, IsRefusedWithFileLineAndColumn) {
  const auto error = error_in(GetParam().text);
  ASSERT_TRUE(error) << GetParam().text;
  EXPECT_EQ(error->code(), ErrorCode::kUsage);
  EXPECT_EQ(error->where(), GetParam().where);
  EXPECT_THAT(error->message(), HasSubstr(GetParam().message));
  EXPECT_THAT(error->message(), testing::Not(HasSubstr("json.exception")));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BadJson,
    testing::Values(Bad{"", "plan.json:1:1", "unexpected end"},
                    Bad{"{\"a\": 1,}", "plan.json:1:9", "syntax error"},
                    Bad{"{\"a\": 1}\n{", "plan.json:2:1", "syntax error"},
                    Bad{"{\n \"a\": 1,\n \"b\": nul\n}", "plan.json:3:10", "invalid literal"},
                    Bad{"{\n \"a\": 1,\n \"a\": 2}", "plan.json:3:4", "\"a\" is there twice"},
                    Bad{"[NaN]", "plan.json:1:2", "invalid literal"},
                    Bad{"[1e999]", "plan.json:1:6", "number overflow"},
                    Bad{"[9223372036854775808]", "plan.json:1:21", "does not fit"},
                    Bad{"[-9223372036854775809]", "plan.json:1:22", "does not fit"},
                    Bad{"[123456789012345678901234567890]", "plan.json:1:32", "does not fit"},
                    Bad{"[01]", "plan.json:1:3", "syntax error"},
                    Bad{"[1] // remark", "plan.json:1:5", "syntax error"},
                    Bad{"[\"\xff\"]", "plan.json:1:3", "UTF-8"},
                    Bad{"[\"a\nb\"]", "plan.json:1:4", "control character"}));

TEST(ParseJson, RefusesADuplicateKeyHoweverItIsSpelled) {
  EXPECT_TRUE(error_in(R"({"a": 1, "\u0061": 2})"));
}

TEST(ParseJson, LetsBrothersHaveTheSameKeys) {
  EXPECT_FALSE(error_in(R"([{"a": {"a": 1}}, {"a": 2}])"));
}

TEST(ParseJson, LimitsDepth) {
  EXPECT_FALSE(error_in("[[[]]]", 3));
  EXPECT_THAT(error_in("[[[[]]]]", 3)->message(), HasSubstr("deeper than 3"));
  EXPECT_TRUE(error_in(std::string(1'000'000, '[')));
}

TEST(ParseJson, TakesTimeInProportionToManyKeys) {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) text += format("{}\"k{}\":{}", i == 0 ? "" : ",", i, i);
  EXPECT_EQ(parse_json(text + "}", "x").size(), 100'000u);
}

TEST(ParseJson, OnlyEverRefusesWithAPlace) {
  const std::string whole = R"({"a":[1,-2.5e3,"x\n\u00e9"],"b":{"c":null,"d":[[],{}]},"e":true})";
  std::mt19937_64 random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string text = whole;
    for (uint64_t edits = 1 + random() % 4; edits > 0; --edits)
      text[random() % text.size()] = static_cast<char>(random());
    if (random() % 4 == 0) text.resize(random() % text.size());
    const auto error = error_in(text);
    if (!error) continue;
    ASSERT_EQ(error->code(), ErrorCode::kUsage) << text;
    ASSERT_TRUE(error->where().starts_with("plan.json:")) << text;
  }
}

TEST(JsonFields, AreGivenByType) {
  const Json value = parse_json(R"({"n": 3, "x": 2.5, "s": "text", "l": [1]})", "x");
  EXPECT_EQ(json_int(value, "n", "x"), 3);
  EXPECT_EQ(json_number(value, "n", "x"), 3.0);
  EXPECT_EQ(json_number(value, "x", "x"), 2.5);
  EXPECT_EQ(json_string(value, "s", "x"), "text");
  EXPECT_EQ(json_array(value, "l", "x").size(), 1u);
}

TEST(JsonFields, AreMissedByPath) {
  const Json value = parse_json(R"({"n": "3"})", "x");
  const std::string where = "plan.json: stages[2]";
  EXPECT_STREQ(tests::error_of([&] { json_at(value, "nodes", where); })->what(),
               "plan.json: stages[2]: \"nodes\" is missing");
  EXPECT_STREQ(tests::error_of([&] { json_int(value, "n", where); })->what(),
               "plan.json: stages[2]: \"n\" must be an integer");
  EXPECT_TRUE(tests::error_of([&] { json_number(value, "n", where); }));
  EXPECT_TRUE(tests::error_of([&] { json_array(value, "n", where); }));
  EXPECT_TRUE(tests::error_of([&] { json_string(parse_json("[]", "x"), "n", where); }));
}

}  // namespace
}  // namespace kerf
