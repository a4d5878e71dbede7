// What a table thread says to who sends it messages: answers, who holds a read up, and to those
// that are none, which message it was. Bytes are as a stranger may send them.
#include "schedmp/tables/table_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/conformance/channel_fixture.h"
#include "tests/support/errors.h"
#include "tests/support/mutated.h"

namespace kerf::schedmp {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

constexpr int kSlots = 4;

std::string bytes_of(const TableHead& head, const std::vector<float>& numbers) {
  std::string bytes(message_bytes(head, numbers.size()), '\0');
  const std::span<float> to = write_message(
      head, numbers.size(), std::as_writable_bytes(std::span(bytes.data(), bytes.size())));
  std::ranges::copy(numbers, to.begin());
  return bytes;
}

// Worker 0 serves; others are told, and say, what a test wants. Unless there are other tables, one
// is shared with worker 1 and one with worker 2.
class Serving {
 public:
  explicit Serving(const std::vector<TableSpec>& tables = two_tables(), int endpoints = 4)
      : net_(runtime::TransportKind::kInproc, endpoints, runtime::one_lane(1 << 20, kSlots)) {
    server_ = std::make_unique<TableServer>(workplace_, tables, desk_);
    server_->serve();
  }
  static std::vector<TableSpec> two_tables() {
    return {{.name = "one", .rows = 8, .width = 2, .groups = {{0, 1}}, .staleness = 1},
            {.name = "other", .rows = 8, .groups = {{0, 2}}}};
  }

  // What worker 0's own compute thread orders, of itself.
  void order(const TableHead& head, const std::vector<float>& numbers = {},
             const TableLanding& landing = {}) {
    desk_.submit({{.to = 0, .head = head, .numbers = numbers, .landing = landing}});
    server_->wake();
  }
  TableDesk& desk() { return desk_; }

  void say(int from, const std::string& bytes) {
    runtime::SendChannel& channel = net_.sender(from, 0);
    const auto slot = channel.acquire(0, bytes.size(), runtime::after(10s));
    ASSERT_TRUE(slot);
    std::memcpy(slot->data, bytes.data(), bytes.size());
    channel.commit(*slot, {});
  }
  void say(int from, const TableHead& head, const std::vector<float>& numbers = {}) {
    say(from, bytes_of(head, numbers));
  }
  // The next message to that worker.
  std::pair<TableHead, std::vector<float>> heard(int by) {
    runtime::ReceiveChannel& channel = net_.receiver(0, by);
    const auto view = channel.receive(runtime::after(10s));
    if (!view) throw Error(ErrorCode::kTimeout, "nothing was said");
    const TableMessage message = read_message({view->data, view->bytes});
    std::pair what(message.head, std::vector(message.numbers.begin(), message.numbers.end()));
    channel.release(*view);
    return what;
  }
  // What it ends with, once it does.
  std::string end() {
    for (const auto deadline = runtime::after(10s); runtime::Clock::now() < deadline;
         std::this_thread::sleep_for(1ms))
      if (const auto error = tests::error_of([&] { desk_.check(); }))
        return kerf::format("{}: {}", to_string(error->code()), error->what());
    return "it goes on";
  }

 private:
  runtime::Net net_;
  std::unique_ptr<runtime::Stream> stream_ = net_.device(0).make_stream();
  runtime::Activity activity_;
  runtime::Trace trace_;
  runtime::LocalStore store_;
  runtime::Workplace workplace_{.worker = 0,
                                .workers = net_.size(),
                                .threads = 1,
                                .device = net_.device(0),
                                .stream = *stream_,
                                .endpoint = net_[0],
                                .activity = activity_,
                                .trace = trace_,
                                .store = store_,
                                .service = &net_[0]};
  TableDesk desk_;
  std::unique_ptr<TableServer> server_;
};

const TableHead kRead{.word = TableWord::kRead, .id = 5, .rows = {{0, 2}}};

TEST(TableServerTest, AReadIsAnsweredOrToldWhoHoldsItUp) {
  Serving serving;
  serving.say(1, kRead);
  EXPECT_EQ(serving.heard(1).first.word, TableWord::kValues);
  TableHead later = kRead;
  later.clock = 1;
  serving.say(1, later);
  const auto [waits, none] = serving.heard(1);
  EXPECT_EQ(waits.word, TableWord::kWaits);
  EXPECT_EQ(waits.id, 5);
  EXPECT_EQ(waits.clock, 0) << "the worker, which has not come to its clock";
  serving.say(1, {.word = TableWord::kClock, .clock = 1});
  serving.say(1, kRead);
  const auto [values, numbers] = serving.heard(1);
  EXPECT_EQ(values.word, TableWord::kValues);
  EXPECT_EQ(values.rows, kRead.rows);
  EXPECT_EQ(numbers.size(), 4u);
}

// Of what other groups changed, a read waits for who serves the same rows there.
TEST(TableServerTest, ASettledReadIsToldWhichGroupHoldsItUp) {
  Serving serving({{.name = "values",
                    .rows = 4,
                    .groups = {{0, 1}, {2, 3}},
                    .staleness = TableSpec::kAnyStaleness}});
  TableHead settled = kRead;
  settled.settled = 1;
  const auto expect_held_up_by = [&](int worker) {
    const auto [waits, none] = serving.heard(1);
    EXPECT_EQ(waits.word, TableWord::kWaits);
    EXPECT_EQ(waits.clock, worker);
  };
  serving.say(1, {.word = TableWord::kClock, .clock = 1, .settled = 1});
  serving.say(1, settled);
  expect_held_up_by(0);  // its own client, which has not asked for it
  serving.order({.word = TableWord::kClock, .clock = 1, .settled = 1});
  expect_held_up_by(2);
  serving.say(2, {.word = TableWord::kChanges, .settled = 1, .rows = {{0, 2}}}, {1, 2});
  const auto [values, numbers] = serving.heard(1);
  EXPECT_EQ(values.word, TableWord::kValues);
  EXPECT_THAT(numbers, testing::ElementsAre(1, 2));
}

// Worker 0 and its neighbour settle two clocks, with news for other groups; then the neighbour
// reads what is settled.
void settle_twice_and_read(Serving& serving, int64_t width) {
  for (const int64_t clock : {1, 2}) {
    const TableHead settles{.word = TableWord::kClock, .clock = clock, .settled = 1};
    serving.order({.word = TableWord::kAdd, .rows = {{0, 1}}},
                  std::vector<float>(static_cast<size_t>(width), 1));
    serving.order(settles);
    serving.say(1, settles);
  }
  std::vector<float> own(static_cast<size_t>(width));
  serving.order({.word = TableWord::kRead, .id = 2, .rows = {{0, 1}}}, {},
                {.read = 2, .server = 0, .ranges = {{own.data(), 1}}, .width = width});
  serving.desk().await(2, 0);  // now all that was ordered before was done
  TableHead settled = kRead;
  settled.settled = 2;
  settled.rows = {{0, 1}};
  serving.say(1, settled);
}

// Where all clients have asked, but another group takes no news, that is awaited, and no client.
TEST(TableServerTest, ASettledReadIsToldWhoDoesNotListen) {
  const TableSpec spec{.name = "values",
                       .rows = 40,
                       .width = kTableMessageBytes / 8,  // two rows in a message
                       .groups = {{0, 1}, {2, 3}},
                       .staleness = TableSpec::kAnyStaleness};
  Serving serving({spec});
  // News of twenty rows are more than slots.
  serving.say(2, {.word = TableWord::kChanges, .settled = 2, .rows = {{0, 1}}},
              std::vector<float>(static_cast<size_t>(spec.width), 1));
  for (std::vector<float> seen{0}; seen[0] == 0; seen = serving.heard(1).second)
    serving.say(1, {.word = TableWord::kRead, .id = 1, .rows = {{0, 1}}});
  settle_twice_and_read(serving, spec.width);
  const TableHead waits = serving.heard(1).first;
  EXPECT_EQ(waits.word, TableWord::kWaits);
  EXPECT_EQ(waits.clock, 2);
  for (int64_t told = 0; told < 2;) told = serving.heard(2).first.settled;
  EXPECT_EQ(serving.heard(1).first.word, TableWord::kValues);
}

// Of two other groups that take no news each is awaited until it does, and not for longer.
TEST(TableServerTest, ASettledReadIsToldAnewWhenAnotherGroupDoesNotListen) {
  const TableSpec spec{.name = "values",
                       .rows = 40,
                       .width = kTableMessageBytes / 8,  // two rows in a message
                       .groups = {{0, 1}, {2, 3}, {4, 5}},
                       .staleness = TableSpec::kAnyStaleness};
  Serving serving({spec}, 6);
  const std::vector<float> ones(static_cast<size_t>(spec.width), 1);
  for (const int twin : {2, 4})
    serving.say(twin, {.word = TableWord::kChanges, .settled = 2, .rows = {{0, 1}}}, ones);
  for (std::vector<float> seen{0}; seen[0] < 2; seen = serving.heard(1).second)
    serving.say(1, {.word = TableWord::kRead, .id = 1, .rows = {{0, 1}}});
  settle_twice_and_read(serving, spec.width);
  const auto hear_news = [&](int twin) {  // once, of all rows that worker 0 serves
    TableHead head;
    do head = serving.heard(twin).first;
    while (head.rows.front().end < spec.rows / 2);
    return head.settled;
  };
  for (const int twin : {2, 4}) {
    const TableHead waits = serving.heard(1).first;
    EXPECT_EQ(waits.word, TableWord::kWaits);
    EXPECT_EQ(waits.clock, twin);
    EXPECT_LT(hear_news(twin), 2);
  }
  EXPECT_EQ(serving.heard(1).first.word, TableWord::kValues);
  for (const int twin : {2, 4}) EXPECT_EQ(hear_news(twin), 2);
}

// A group that does not listen costs no memory: what it has yet to hear is added up, and nothing of
// it is lost. It rests behind the last.
TEST(TableServerTest, NewsForASlowGroupAddUp) {
  constexpr int kClocks = 50;
  Serving serving(
      {{.name = "values", .rows = 2, .groups = {{0}, {1}}, .staleness = TableSpec::kAnyStaleness}});
  for (int clock = 1; clock <= kClocks; ++clock) {
    serving.order({.word = TableWord::kAdd, .rows = {{0, 2}}}, {1, 2});
    serving.order({.word = TableWord::kClock, .clock = clock, .settled = clock % 2});
  }
  serving.order({.word = TableWord::kRest});
  std::vector<float> own(2), sums(2);
  serving.order({.word = TableWord::kRead, .id = 1, .rows = {{0, 2}}}, {},
                {.read = 1, .server = 0, .ranges = {{own.data(), 2}}});
  serving.desk().await(1, 0);  // now all that was ordered before was done
  EXPECT_THAT(own, testing::ElementsAre(kClocks, 2 * kClocks));
  serving.say(1, {.word = TableWord::kRest});
  int64_t settled = 0;
  int messages = 0;
  while (true) {
    const auto [head, numbers] = serving.heard(1);
    if (head.word == TableWord::kRest) break;
    ASSERT_EQ(head.word, TableWord::kChanges);
    ASSERT_EQ(numbers.size(), sums.size());
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += numbers[i];
    settled = head.settled;
    ++messages;
  }
  EXPECT_THAT(sums, testing::ElementsAre(kClocks, 2 * kClocks));
  EXPECT_EQ(settled, kClocks / 2);
  EXPECT_LE(messages, kSlots + 3);
  serving.desk().await_rest();
}

TEST(TableServerTest, WhatIsNoMessageForItEndsItWithWhoSentThat) {
  const auto ends = [](int from, const std::string& bytes) {
    Serving serving;
    serving.say(from, bytes);
    return serving.end();
  };
  const auto from_one = [](const std::string& what) {
    return AllOf(HasSubstr("protocol"), HasSubstr("worker 0, from worker 1"), HasSubstr(what));
  };
  const auto says = [&](const TableHead& head, const std::vector<float>& numbers = {}) {
    return ends(1, bytes_of(head, numbers));
  };
  const auto head = [](TableWord word, int32_t table = 0) {
    return TableHead{.word = word, .table = table, .rows = {{0, 1}}};
  };
  EXPECT_THAT(says(head(TableWord::kRead, 2)), from_one("there is no table 2"));
  EXPECT_THAT(says(head(TableWord::kRead, -1)), from_one("there is no table -1"));
  EXPECT_THAT(says(head(TableWord::kRead, 1)), from_one("nothing to say there"));
  EXPECT_THAT(says(head(TableWord::kChanges), {1, 1}), from_one("nothing to say there"));
  EXPECT_THAT(says(head(static_cast<TableWord>(99))), from_one("a word that there is not"));
  EXPECT_THAT(says(head(TableWord::kGradient), {1, 1}), from_one("no optimizer"));
  EXPECT_THAT(says(head(TableWord::kAdd), {1}), from_one("1 numbers for 1 rows"));
  EXPECT_THAT(says({.word = TableWord::kRead, .rows = {{3, 5}}}), from_one("rows 3 to 5 of 4"));
  EXPECT_THAT(says({.word = TableWord::kClock, .clock = 2}), from_one("clock 2 behind clock 0"));
  EXPECT_THAT(says(head(TableWord::kValues), {1, 1}), from_one("not asked for"));
  EXPECT_THAT(says({.word = TableWord::kWaits, .clock = 4}), from_one("there is no worker 4"));
  EXPECT_THAT(says({.word = TableWord::kWaits, .clock = -1}), from_one("there is no worker -1"));
  EXPECT_THAT(ends(2, bytes_of(head(TableWord::kRead), {})), HasSubstr("nothing to say there"));
  Serving serving;
  serving.say(1, {.word = TableWord::kRest});
  serving.say(1, {.word = TableWord::kRest});
  EXPECT_THAT(serving.end(), from_one("it rests twice"));
}

// Each is taken for what it says, or refused, without a look beyond its bytes.
TEST(TableMessageTest, BytesThatAreCutOrChangedAreReadWithinTheirBounds) {
  const std::vector<float> numbers{1, 2, 3, 4, 5, 6};
  const TableHead head{.word = TableWord::kAdd, .rate = 0.5, .rows = {{0, 2}, {5, 6}}};
  const std::string sound = bytes_of(head, numbers);
  const auto reads = [](const std::string& text) {
    std::vector<std::byte> bytes(text.size());
    if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
    float sum = 0;
    const auto error = tests::error_of([&] {
      const TableMessage message = read_message(bytes);
      for (const float each : message.numbers) sum += each;
      EXPECT_LE(message.numbers.size_bytes(), bytes.size());
    });
    EXPECT_TRUE(!error || error->code() == ErrorCode::kProtocol) << error->what();
    return !error;
  };
  ASSERT_TRUE(reads(sound));
  for (size_t size = 0; size < sound.size(); ++size) reads(sound.substr(0, size));
  EXPECT_FALSE(reads(sound.substr(0, 3)));
  EXPECT_FALSE(reads(sound.substr(0, 40))) << "within its head";
  EXPECT_FALSE(reads(sound.substr(0, sound.size() - 1))) << "within a number";
  EXPECT_FALSE(reads(std::string("\xff\xff\xff\xff", 4) + sound)) << "a head beyond all bytes";
  std::mt19937_64 random(1);
  for (int i = 0; i < 5000; ++i) reads(tests::mutated(sound, random, 64));
}

TEST(TableMessageTest, WhatIsWrittenIsRead) {
  TableHead head{.word = TableWord::kGradient,
                 .table = 3,
                 .id = 4,
                 .clock = 5,
                 .settled = 1,
                 .decays = true,
                 .rate = 0.1,
                 .scale = 0.5F};
  for (size_t ranges = 0; ranges <= kMostRanges; ranges += 32) {
    std::vector<float> numbers(ranges * 3, 1.5F);
    const std::string bytes = bytes_of(head, numbers);
    const TableMessage message = read_message(std::as_bytes(std::span(bytes.data(), bytes.size())));
    EXPECT_EQ(message.head.rows, head.rows);
    EXPECT_EQ(message.head.word, head.word);
    EXPECT_EQ(std::tuple(message.head.table, message.head.id, message.head.clock),
              std::tuple(3, 4, 5));
    EXPECT_EQ(std::tuple(message.head.settled, message.head.decays, message.head.rate,
                         message.head.scale),
              std::tuple(1, true, 0.1, 0.5F));
    EXPECT_THAT(message.numbers, testing::ElementsAreArray(numbers));
    for (int64_t row = 0; row < 32; ++row)
      head.rows.push_back({std::ssize(head.rows) * 10, std::ssize(head.rows) * 10 + 3});
  }
}

}  // namespace
}  // namespace kerf::schedmp
