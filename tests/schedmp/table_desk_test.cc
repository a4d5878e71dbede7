// What a worker's compute thread and its table thread hand each other.
#include "schedmp/tables/table_desk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <numeric>
#include <thread>

#include "runtime/error.h"
#include "tests/support/errors.h"

namespace kerf::schedmp {
namespace {

using namespace std::chrono_literals;

// A read with one message to worker 2, of these rows by its numbers, which go to every `stride`-th
// row of `into`, one range behind the other.
TableOrder asked_of_two(int64_t id, const std::vector<ops::Range>& rows, int64_t stride,
                        int64_t width, std::vector<float>& into) {
  TableOrder order{.to = 2,
                   .head = {.word = TableWord::kRead, .id = id, .rows = rows},
                   .numbers = {},
                   .landing = {}};
  order.landing = {.read = 7, .server = 2, .ranges = {}, .width = width, .stride = stride};
  int64_t row = 0;
  for (const ops::Range& each : rows) {
    order.landing.ranges.push_back({into.data() + row * width, each.size()});
    row += each.size() * stride;
  }
  return order;
}

TableHead answer_to(int64_t id, const std::vector<ops::Range>& rows, int64_t clock = 0) {
  return {.word = TableWord::kValues, .id = id, .clock = clock, .rows = rows};
}

TEST(TableDeskTest, AnswersLandWhereTheirRowsBelong) {
  for (const int64_t stride : {1, 2, 3})
    for (const int64_t width : {1, 4}) {
      const std::vector<ops::Range> rows{{2, 5}, {9, 9}, {11, 12}};
      const size_t size = static_cast<size_t>(4 * stride * width);
      std::vector<float> into(size, -1), numbers(static_cast<size_t>(4 * width)),
          expected(size, -1);
      std::iota(numbers.begin(), numbers.end(), 1.0F);
      for (int64_t row = 0; row < 4; ++row)
        for (int64_t i = 0; i < width; ++i)
          expected[static_cast<size_t>(row * stride * width + i)] =
              numbers[static_cast<size_t>(row * width + i)];
      TableDesk desk;
      desk.submit({asked_of_two(5, rows, stride, width, into)});
      ASSERT_EQ(desk.take().size(), 1u);
      EXPECT_TRUE(desk.take().empty());
      desk.land(2, {answer_to(5, rows, 3), numbers});
      EXPECT_EQ(desk.await(7, -1).clock, 3);
      EXPECT_EQ(into, expected) << "stride " << stride << ", width " << width;
    }
}

TEST(TableDeskTest, AReadIsAsOldAsTheOldestOfItsAnswers) {
  std::vector<float> into(3), one(1);
  TableDesk desk;
  std::vector<TableOrder> orders;
  for (const int64_t id : {1, 2, 3}) orders.push_back(asked_of_two(id, {{0, 1}}, 1, 1, into));
  desk.submit(std::move(orders));
  for (const auto& [id, clock] : {std::pair(2, 9), {1, 4}, {3, 6}})
    desk.land(2, {answer_to(id, {{0, 1}}, clock), one});
  EXPECT_EQ(desk.await(7, -1).clock, 4);
}

TEST(TableDeskTest, AnswersThatNobodyAskedForAreRefusedAndWriteNothing) {
  const std::vector<ops::Range> rows{{2, 5}, {7, 8}};
  std::vector<float> into(8, -1);
  const std::vector<float> numbers(64, 1);
  TableDesk desk;
  desk.submit({asked_of_two(5, rows, 1, 2, into)});
  const auto refused = [&](int from, const TableHead& head, size_t count) {
    const auto error = tests::error_of([&] {
      desk.land(from, {head, std::span(numbers).first(count)});
    });
    return error && error->code() == ErrorCode::kProtocol;
  };
  EXPECT_TRUE(refused(2, answer_to(6, rows), 8)) << "another read";
  EXPECT_TRUE(refused(1, answer_to(5, rows), 8)) << "of who was not asked";
  EXPECT_TRUE(refused(2, answer_to(5, rows), 7));
  EXPECT_TRUE(refused(2, answer_to(5, {{2, 5}}), 6));
  EXPECT_TRUE(refused(2, answer_to(5, {{2, 4}, {7, 9}}), 8)) << "as many, in other ranges";
  EXPECT_TRUE(refused(2, answer_to(5, {{2, 30}, {30, 6}}), 8)) << "as many, less than none";
  EXPECT_THAT(into, testing::Each(-1.0F));
  desk.land(2, {answer_to(5, rows), std::span(numbers).first(8)});
  EXPECT_TRUE(refused(2, answer_to(5, rows), 8)) << "twice";
}

TEST(TableDeskTest, WhoIsWaitedForIsToldOnceAndAgainWhereItIsAnother) {
  std::vector<float> into(1), one(1);
  TableDesk desk;
  desk.submit({asked_of_two(5, {{0, 1}}, 1, 1, into)});
  TableAnswers known = desk.await(7, -1);
  EXPECT_EQ(known.awaited, 2) << "the server, which says nothing";
  for (const int worker : {0, 3}) {
    std::jthread table_thread([&] {
      std::this_thread::sleep_for(5ms);
      desk.holds_up(5, worker);
    });
    known = desk.await(7, known.awaited);
    EXPECT_EQ(known.awaited, worker);
    EXPECT_EQ(known.missing, 1);
  }
  std::jthread table_thread([&] {
    std::this_thread::sleep_for(5ms);
    desk.land(2, {answer_to(5, {{0, 1}}), one});
    desk.holds_up(5, 1);  // too late, which is nobody's fault
  });
  EXPECT_EQ(desk.await(7, known.awaited).missing, 0);
}

TEST(TableDeskTest, WhatEndsTheTableThreadEndsWhoeverWaits) {
  const auto fails = [](const std::function<void(TableDesk&)>& wait) {
    TableDesk desk;
    std::jthread table_thread([&] {
      std::this_thread::sleep_for(5ms);
      desk.fail(std::make_exception_ptr(Error(ErrorCode::kProtocol, "the cord broke")));
    });
    const auto error = tests::error_of([&] { wait(desk); });
    return error && error->message() == "the cord broke";
  };
  std::vector<float> into(1);
  EXPECT_TRUE(fails([&](TableDesk& desk) {
    desk.submit({asked_of_two(5, {{0, 1}}, 1, 1, into)});
    for (int awaited = -1;;) awaited = desk.await(7, awaited).awaited;
  }));
  EXPECT_TRUE(fails([](TableDesk& desk) { desk.await_rest(); }));
  EXPECT_TRUE(fails([](TableDesk& desk) {
    while (true) desk.check();
  }));
  EXPECT_TRUE(fails([](TableDesk& desk) {
    const std::vector<float> many(size_t{1} << 22);
    while (true) desk.submit({{.to = 1, .head = {}, .numbers = many, .landing = {}}});
  })) << "who submits more than is sent";
}

// So memory has a bound, whatever a program adds.
TEST(TableDeskTest, WhoSubmitsWaitsWhereTooMuchIsUnsent) {
  TableDesk desk;
  const std::vector<float> many(size_t{1} << 22);
  const auto bytes = std::ssize(many) * int64_t{sizeof(float)};
  int64_t sent = 0, most = 0;
  std::atomic<int64_t> submitted{0};
  std::jthread compute_thread([&] {
    for (int i = 0; i < 12; ++i) {
      desk.submit({{.to = 1, .head = {}, .numbers = many, .landing = {}}});
      ++submitted;
    }
  });
  while (sent < 12) {
    std::this_thread::sleep_for(2ms);
    most = std::max(most, submitted - sent);
    for (size_t i = desk.take().size(); i > 0; --i, ++sent) desk.sent(1, bytes);
  }
  EXPECT_LE(most * bytes, (int64_t{64} << 20) + bytes);
}

// Of two for whom something is unsent, who has more of it; then the other.
TEST(TableDeskTest, WhoSubmitsAwaitsWhomMostOfItIsFor) {
  TableDesk desk;
  constexpr int64_t kMiB = int64_t{1} << 20;
  const auto submit = [&](int to, int64_t bytes) {
    desk.submit({{.to = to,
                  .head = {},
                  .numbers = std::vector<float>(static_cast<size_t>(bytes) / sizeof(float)),
                  .landing = {}}});
  };
  submit(1, 60 * kMiB);
  submit(2, 80 * kMiB);
  std::vector<int> awaited;
  std::jthread table_thread;
  desk.submit({}, [&](int worker) {
    awaited.push_back(worker);
    if (awaited.size() > 1) return;
    table_thread = std::jthread([&] {
      for (const auto& [to, sent] : {std::pair(2, 50), {1, 60}}) {
        std::this_thread::sleep_for(20ms);
        desk.sent(to, sent * kMiB);
      }
    });
  });
  EXPECT_THAT(awaited, testing::ElementsAre(2, 1));
}

}  // namespace
}  // namespace kerf::schedmp
