#include "runtime/lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "runtime/error.h"

namespace kerf::runtime {
namespace {

TEST(LaneLayout, GivesEverySlotItsOwnAlignedPlace) {
  const std::vector<Lane> lanes{{0, 2}, {1, 3}, {64, 1}, {65, 2}, {4096, 2}, {5000, 0}, {9000, 3}};
  const LaneLayout layout(lanes);
  size_t end = 0;
  size_t ordinal = 0;
  for (int lane = 0; lane < layout.lanes(); ++lane)
    for (int index = 0; index < lanes[lane].slots; ++index) {
      EXPECT_GE(layout.offset(lane, index), end) << "overlaps the slot before";
      EXPECT_EQ(layout.offset(lane, index) % 64, 0u);
      EXPECT_EQ(layout.ordinal(lane, index), ordinal++);
      end = layout.offset(lane, index) + std::max<size_t>(lanes[lane].slot_bytes, 1);
    }
  EXPECT_LE(end, layout.total_bytes());
  EXPECT_EQ(layout.total_bytes() % 4096, 0u);
  EXPECT_EQ(layout.total_slots(), ordinal);
}

TEST(LaneLayout, KnowsWhatFits) {
  const LaneLayout layout({{100, 2}, {0, 1}});
  EXPECT_TRUE(layout.fits(0, 1, 100));
  EXPECT_TRUE(layout.fits(1, 0, 0));
  EXPECT_FALSE(layout.fits(0, 1, 101));
  EXPECT_FALSE(layout.fits(0, 2, 1));
  EXPECT_FALSE(layout.fits(0, -1, 1));
  EXPECT_FALSE(layout.fits(2, 0, 0));
  EXPECT_FALSE(layout.fits(-1, 0, 0));
  EXPECT_FALSE(layout.fits(0, 0, std::numeric_limits<uint64_t>::max()));
}

TEST(LaneLayout, RefusesWhatNoMemoryHolds) {
  EXPECT_THROW(LaneLayout({{1, -1}}), Error);
  EXPECT_THROW(LaneLayout({{std::numeric_limits<uint64_t>::max(), 1}}), Error);
  EXPECT_THROW(LaneLayout({{uint64_t{1} << 60, 1 << 30}}), Error);
}

TEST(SenderSlots, TakesEverySlotOnceAndTheWarmestFirst) {
  SenderSlots book(LaneLayout({{8, 3}}));
  EXPECT_EQ(book.take(0), 0);
  EXPECT_EQ(book.take(0), 1);
  EXPECT_EQ(book.take(0), 2);
  EXPECT_EQ(book.take(0), std::nullopt);
  book.abandoned(0, 1);
  EXPECT_EQ(book.take(0), 1);
}

TEST(SenderSlots, BelievesOnlyCreditsForWhatIsUnderWay) {
  SenderSlots book(LaneLayout({{8, 2}}));
  EXPECT_EQ(book.take(0), 0);
  EXPECT_FALSE(book.released({0, 0, 0})) << "only taken";
  book.committed({0, 0, 7});
  EXPECT_FALSE(book.released({0, 0, 6})) << "an earlier message in the same slot";
  EXPECT_FALSE(book.released({0, 5, 7}));
  EXPECT_FALSE(book.released({-3, 0, 7}));
  EXPECT_EQ(book.under_way(), 1u);
  EXPECT_TRUE(book.released({0, 0, 7}));
  EXPECT_FALSE(book.released({0, 0, 7})) << "twice";
  EXPECT_EQ(book.under_way(), 0u);
}

TEST(SenderSlots, LearnsFromAStateWhatWasReleased) {
  SenderSlots book(LaneLayout({{8, 4}}));
  for (uint64_t i = 0; i < 4; ++i) {
    const int slot = book.take(0).value();
    book.committed({0, slot, 10 + i});
  }
  // 10 and 12 were released, 11 is still held, 13 has not arrived.
  EXPECT_EQ(book.released_all_but(13, {{0, 1, 11}}), 2u);
  EXPECT_EQ(book.under_way(), 2u);
  EXPECT_TRUE(book.released({0, 1, 11}));
  EXPECT_TRUE(book.released({0, 3, 13}));
}

TEST(SenderSlots, FreesWhatIsRetainedWhenBothSidesAreDone) {
  for (const bool released_first : {true, false}) {
    SenderSlots book(LaneLayout({{8, 1}}));
    EXPECT_EQ(book.take(0), 0);
    book.retained(0, 0);
    book.committed({0, 0, 3});
    const auto release = [&] { EXPECT_TRUE(book.released({0, 0, 3})); };
    const auto retire = [&] { book.retired(0, 0); };
    released_first ? release() : retire();
    EXPECT_FALSE(book.has_free(0));
    EXPECT_EQ(book.under_way(), released_first ? 0U : 1U);
    released_first ? retire() : release();
    EXPECT_EQ(book.take(0), 0);
    book.committed({0, 0, 4});
    EXPECT_TRUE(book.released({0, 0, 4}));
    EXPECT_TRUE(book.has_free(0)) << "the next message is retained only if that is said again";
  }
}

TEST(SenderSlots, ForgetsThatAnAbandonedSlotWasRetained) {
  SenderSlots book(LaneLayout({{8, 1}}));
  EXPECT_EQ(book.take(0), 0);
  book.retained(0, 0);
  book.abandoned(0, 0);
  EXPECT_EQ(book.take(0), 0);
  book.committed({0, 0, 0});
  EXPECT_TRUE(book.released({0, 0, 0}));
  EXPECT_TRUE(book.has_free(0));
}

TEST(SenderSlots, AnswersMisuseWithABug) {
  SenderSlots book(LaneLayout({{8, 1}}));
  EXPECT_THROW(book.committed({0, 0, 0}), Error);
  EXPECT_THROW(book.abandoned(0, 0), Error);
  EXPECT_THROW(book.retained(0, 0), Error) << "nobody acquired it";
  EXPECT_THROW(book.retired(0, 0), Error);
  EXPECT_EQ(book.take(0), 0);
  book.retained(0, 0);
  EXPECT_THROW(book.retired(0, 0), Error) << "not committed yet";
  book.committed({0, 0, 0});
  book.retired(0, 0);
  EXPECT_THROW(book.retired(0, 0), Error) << "twice";
  EXPECT_THROW(std::ignore = book.take(1), Error);
}

TEST(ReceiverSlots, ListsWhatIsHeldByAge) {
  ReceiverSlots book(LaneLayout({{8, 2}, {8, 2}}));
  book.hold({1, 0, 5});
  book.hold({0, 1, 4});
  book.hold({0, 0, 6});
  EXPECT_EQ(book.release(0, 1), 4u);
  std::vector<uint64_t> sequences;
  for (const SlotName& slot : book.all()) sequences.push_back(slot.sequence);
  EXPECT_THAT(sequences, testing::ElementsAre(5, 6));
  EXPECT_TRUE(book.holds(1, 0));
  EXPECT_THROW(book.release(0, 1), Error);
  EXPECT_THROW(book.release(9, 9), Error);
}

}  // namespace
}  // namespace kerf::runtime
