// The algebra of index sets is that of sets: every operation is compared with std::set.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <random>
#include <set>

#include "ops/layout.h"

namespace kerf::ops {
namespace {

using Plain = std::set<int64_t>;

constexpr int64_t kExtent = 24;

Plain plain(const IndexSet& set, int64_t extent = kExtent) {
  Plain indices;
  for (const Range& range : set.ranges(extent))
    for (int64_t i = range.begin; i < range.end; ++i) indices.insert(i);
  return indices;
}

bool canonical(const IndexSet& set) {
  if (set.is_all()) return set.ranges().empty();
  int64_t end = -1;  // 0 may begin: it has no neighbour below
  for (const Range& range : set.ranges()) {
    if (range.begin <= end || range.size() <= 0) return false;
    end = range.end;
  }
  return true;
}

// Draws sets of all kinds: all, none, one range, and scattered indices in any order.
class Draw {
 public:
  IndexSet operator()() {
    switch (number(0, 5)) {
      case 0:
        return IndexSet::all();
      case 1:
        return IndexSet::none();
      case 2: {
        const int64_t begin = number(0, kExtent - 1);
        return IndexSet::range(begin, number(begin, kExtent));
      }
      default:
        return IndexSet::of(indices());
    }
  }
  std::vector<int64_t> indices() {
    std::vector<int64_t> drawn(static_cast<size_t>(number(0, kExtent)));
    for (int64_t& index : drawn) index = number(0, kExtent - 1);
    return drawn;
  }
  int64_t number(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(engine_);
  }

 private:
  std::mt19937_64 engine_{20240601};
};

template <class Combine>
Plain combine(const Plain& a, const Plain& b, Combine&& algorithm) {
  Plain result;
  algorithm(a.begin(), a.end(), b.begin(), b.end(), std::inserter(result, result.end()));
  return result;
}

TEST(IndexSet, IsMadeOfAnyIndices) {
  Draw draw;
  for (int round = 0; round < 500; ++round) {
    const std::vector<int64_t> indices = draw.indices();
    const IndexSet set = IndexSet::of(indices);
    EXPECT_TRUE(canonical(set));
    EXPECT_EQ(plain(set), Plain(indices.begin(), indices.end()));
  }
}

TEST(IndexSet, CombinesAsSetsDo) {
  Draw draw;
  for (int round = 0; round < 3000; ++round) {
    const IndexSet a = draw();
    const IndexSet b = draw();
    SCOPED_TRACE(to_string(a) + " and " + to_string(b));
    const Plain x = plain(a);
    const Plain y = plain(b);
    const auto meets = [](auto... args) { std::set_intersection(args...); };
    const auto joins = [](auto... args) { std::set_union(args...); };
    const auto loses = [](auto... args) { std::set_difference(args...); };
    EXPECT_EQ(plain(intersect(a, b)), combine(x, y, meets));
    EXPECT_EQ(plain(unite(a, b)), combine(x, y, joins));
    EXPECT_EQ(plain(subtract(a, b, kExtent)), combine(x, y, loses));
    for (const IndexSet& set : {intersect(a, b), unite(a, b), subtract(a, b, kExtent)})
      EXPECT_TRUE(canonical(set)) << to_string(set);
    EXPECT_EQ(a.normalized(kExtent).contains(b.normalized(kExtent)),
              std::includes(x.begin(), x.end(), y.begin(), y.end()));
  }
}

TEST(IndexSet, AnswersForOneIndexAndForItsSize) {
  Draw draw;
  for (int round = 0; round < 500; ++round) {
    const IndexSet set = draw();
    const Plain indices = plain(set);
    EXPECT_EQ(set.size(kExtent), std::ssize(indices));
    EXPECT_EQ(set.empty(), indices.empty());
    for (int64_t i = 0; i < kExtent; ++i) EXPECT_EQ(set.contains(i), indices.contains(i)) << i;
    EXPECT_FALSE(set.contains(-1));
  }
}

TEST(IndexSet, HasOneSpellingOnceNormalized) {
  Draw draw;
  for (int round = 0; round < 500; ++round) {
    const IndexSet a = draw();
    EXPECT_EQ(a.normalized(kExtent).is_all(), std::ssize(plain(a)) == kExtent);
    EXPECT_EQ(plain(a.normalized(kExtent)), plain(a));
  }
  EXPECT_EQ(IndexSet::range(0, 9).normalized(10), IndexSet::range(0, 9));
  EXPECT_EQ(IndexSet::range(0, 11).normalized(10), IndexSet::range(0, 11));
  EXPECT_TRUE(IndexSet::all().normalized(kBatch).is_all());
  EXPECT_EQ(IndexSet::range(0, 4).normalized(kBatch), IndexSet::range(0, 4));
}

TEST(IndexSet, KnowsLittleOfABatch) {
  EXPECT_EQ(IndexSet::all().size(kBatch), kBatch);
  EXPECT_THROW(IndexSet::all().ranges(kBatch), Error);
  EXPECT_THROW(subtract(IndexSet::all(), IndexSet::range(0, 3), kBatch), Error);
  EXPECT_TRUE(subtract(IndexSet::all(), IndexSet::none(), kBatch).is_all());
  EXPECT_TRUE(subtract(IndexSet::all(), IndexSet::all(), kBatch).empty());
}

TEST(IndexSet, RefusesWhatIsNoIndex) {
  EXPECT_THROW(IndexSet::range(-1, 3), Error);
  EXPECT_THROW(IndexSet::range(5, 3), Error);
  EXPECT_THROW(IndexSet::of({3, -7}), Error);
  EXPECT_THROW(IndexSet::of({std::numeric_limits<int64_t>::max()}), Error);
}

TEST(SplitEvenly, LosesNoIndexAndPutsLargerFirst) {
  for (int64_t extent = 0; extent < 30; ++extent) {
    for (int parts = 1; parts < 9; ++parts) {
      const std::vector<IndexSet> sets = split_evenly(extent, parts);
      ASSERT_EQ(std::ssize(sets), parts);
      int64_t next = 0;
      int64_t before = extent;
      for (const IndexSet& set : sets) {
        const int64_t size = set.size(extent);
        EXPECT_LE(size, before);
        EXPECT_GE(size, extent / parts);
        EXPECT_LE(size, (extent + parts - 1) / parts);
        if (size > 0) {
          EXPECT_EQ(set.ranges(extent)[0], (Range{next, next + size}));
        }
        next += size;
        before = size;
      }
      EXPECT_EQ(next, extent);
    }
  }
}

TEST(SplitEvenly, OfTenOverFourIsThreeThreeTwoTwo) {
  EXPECT_THAT(split_evenly(10, 4),
              testing::ElementsAre(IndexSet::range(0, 3), IndexSet::range(3, 6),
                                   IndexSet::range(6, 8), IndexSet::range(8, 10)));
  EXPECT_TRUE(split_evenly(10, 1)[0].is_all());
  EXPECT_TRUE(split_evenly(1, 3)[0].is_all());
  EXPECT_TRUE(split_evenly(1, 3)[1].empty());
}

TEST(IndexSetText, IsReadBackAsItWasWritten) {
  Draw draw;
  for (int round = 0; round < 500; ++round) {
    const IndexSet set = draw();
    EXPECT_EQ(parse_index_set(to_string(set), "test"), set) << to_string(set);
  }
}

TEST(IndexSetText, IsWhatPeopleWrite) {
  EXPECT_EQ(to_string(IndexSet::of({0, 1, 2, 3, 7, 9, 10, 11})), "0-3,7,9-11");
  EXPECT_EQ(to_string(IndexSet::all()), "all");
  EXPECT_EQ(to_string(IndexSet::none()), "none");
  EXPECT_EQ(parse_index_set("9-11, 7 ,0-3", "test"), IndexSet::of({0, 1, 2, 3, 7, 9, 10, 11}));
  EXPECT_EQ(parse_index_set("0-3,4-5", "test"), IndexSet::range(0, 6));
  EXPECT_EQ(parse_index_set("0-9223372036854775806", "test"),
            IndexSet::range(0, std::numeric_limits<int64_t>::max()));
}

TEST(IndexSetText, RefusesEverythingElseAndNamesThePlace) {
  for (const char* text : {"",
                           ",",
                           "1,",
                           ",1",
                           "1,,2",
                           " ",
                           "-",
                           "-3",
                           "3-",
                           "1--3",
                           "1-2-3",
                           "5-3",
                           "+1",
                           "0x10",
                           "1.5",
                           "1e3",
                           "a",
                           "All",
                           "all,3",
                           "none,3",
                           "1;2",
                           "1 2",
                           "0-3,2",
                           "4,4",
                           "0-3,3-5",
                           "9223372036854775807",
                           "0-9223372036854775807",
                           "99999999999999999999999999",
                           "\n",
                           "1\t"}) {
    try {
      const IndexSet set = parse_index_set(text, "shares.txt:3");
      ADD_FAILURE() << '"' << text << "\" became " << to_string(set);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage) << text;
      EXPECT_EQ(error.where(), "shares.txt:3") << text;
    }
  }
}

TEST(IndexSetText, SurvivesNoise) {
  std::mt19937_64 engine(7);
  const std::string letters = "0123456789-,- al";
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (uint64_t i = engine() % 12; i > 0; --i) text += letters[engine() % letters.size()];
    try {
      EXPECT_TRUE(canonical(parse_index_set(text, "test"))) << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage) << text;
    }
  }
}

}  // namespace
}  // namespace kerf::ops
