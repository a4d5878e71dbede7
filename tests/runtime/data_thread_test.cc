// Channels over links move while their compute threads are elsewhere: a thread of the endpoint
// takes messages into their slots, sends what a device has written and gives back what it has read;
// and it leaves all of that to a compute thread that waits in the endpoint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/error.h"
#include "runtime/host_work.h"
#include "runtime/link/link_endpoint.h"
#include "tests/runtime/link_pair.h"
#include "tests/support/async_device.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;

std::string thrown_by(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.message();
  }
  return "nothing";
}

TEST(DataThread, TakesAMessageIntoItsSlotWhileItsReceiverIsElsewhere) {
  Pair pair;
  ASSERT_TRUE(pair.exchange.wait_until_taken(1, after(10s)));
  std::this_thread::sleep_for(5ms);  // for the data thread to fall asleep
  const int64_t before = pair.exchange.taken_by_me(1);
  pair.send(0, 7);
  ASSERT_TRUE(pair.exchange.wait_until_taken(1, after(kSoon)));
  pair.receive(1, 7, Deadline{});  // whoever only looks finds it
  EXPECT_EQ(pair.exchange.taken_by_me(1), before);
}

TEST(DataThread, TakesAMessageWhenItsReceiverHasWaitedAndGone) {
  Pair pair;
  ASSERT_TRUE(pair.exchange.wait_until_taken(1, after(10s)));
  std::this_thread::sleep_for(5ms);
  EXPECT_FALSE(pair.receiver(1).receive(after(2ms)));
  pair.send(0, 7);
  ASSERT_TRUE(pair.exchange.wait_until_taken(1, after(kSoon)));
  pair.receive(1, 7, Deadline{});
}

TEST(DataThread, TakesTheCreditsOfASenderThatIsElsewhere) {
  Pair pair;
  for (const int seed : {1, 2}) pair.send(0, seed);
  const int64_t before = pair.exchange.taken_by_me(0);
  for (const int seed : {1, 2}) pair.receive(1, seed);
  ASSERT_TRUE(pair.exchange.wait_until_taken(0, after(10s)));
  EXPECT_TRUE(pair.sender(0).acquire(0, kBytes, Deadline{}));
  EXPECT_EQ(pair.exchange.taken_by_me(0), before);
}

TEST(DataThread, LeavesThePacketsToAComputeThreadThatWaits) {
  Pair pair;
  std::jthread sending([&] {
    ASSERT_TRUE(pair.exchange.wait_until_waiting(1, after(10s)));
    std::this_thread::sleep_for(2ms);  // for a data thread to come in between, if it would
    pair.send(0, 7);
  });
  ASSERT_TRUE(pair.exchange.wait_until_taken(1, after(10s)));  // the opening's
  const int64_t mine = pair.exchange.taken_by_me(1);
  const int64_t others = pair.exchange.taken_by_others(1);
  pair.receive(1, 7);
  EXPECT_EQ(pair.exchange.taken_by_me(1), mine + 3);
  EXPECT_EQ(pair.exchange.taken_by_others(1), others);
}

// They need no copy, for which it would let go of the lock.
TEST(DataThread, LetsItsComputeThreadInBetweenPackets) {
  Pair pair;
  ASSERT_TRUE(pair.exchange.wait_until_taken(1, after(10s)));
  PacketHeader welcome;
  welcome.kind = PacketKind::kWelcome;
  pair.exchange.flood(1, welcome, 200'000);
  while (pair.exchange.untaken(1) == 200'000) std::this_thread::yield();
  int calls = 0;
  for (; pair.exchange.untaken(1) > 0; ++calls) std::ignore = pair[1].counters();
  EXPECT_GT(calls, 3) << "it had to wait until all were taken";
}

// What was told once is told no more, so it has to look by itself: it was about to be woken when
// its compute thread took the first message, and left the second.
TEST(DataThread, TakesWhatItsComputeThreadLeftUnread) {
  Pair pair;
  ASSERT_TRUE(pair.exchange.wait_until_taken(1, after(10s)));
  std::this_thread::sleep_for(5ms);
  pair.exchange.silence(1);
  for (const int seed : {1, 2}) pair.send(0, seed);
  const int64_t before = pair.exchange.taken_by_me(1);
  pair.receive(1, 1, Deadline{});
  ASSERT_TRUE(pair.exchange.wait_until_taken(1, after(kSoon)));
  EXPECT_EQ(pair.exchange.taken_by_me(1), before + 3);
  pair.receive(1, 2, Deadline{});
}

TEST(DataThread, SleepsWhileThereIsNothingToDo) {
  Pair pair;
  pair.send(0, 7);
  ASSERT_TRUE(pair.exchange.wait_until_taken(1, after(10s)));
  const int64_t before = pair.exchange.looks(1);
  std::this_thread::sleep_for(300ms);
  EXPECT_LE(pair.exchange.looks(1), before + 2) << "once a second is enough";
}

// The device of one worker is held until `go`, and behind that comes what the test commits or
// releases.
class LateDevice : public testing::Test {
 protected:
  explicit LateDevice(int late)
      : pair_(late == 0 ? std::vector<std::shared_ptr<Device>>{device_, make_cpu_device()}
                        : std::vector<std::shared_ptr<Device>>{make_cpu_device(), device_}) {
    launch(*stream_, [this] { go_.wait(false); });
  }
  ~LateDevice() override { go(); }
  void go() {
    go_ = true;
    go_.notify_all();
  }

  std::atomic<bool> go_{false};
  const std::shared_ptr<Device> device_ =
      tests::make_async_device(std::make_shared<tests::AsyncWorld>(1));
  Pair pair_;
  const std::unique_ptr<Stream> stream_ = device_->make_stream();
};

struct LateSender : LateDevice {
  LateSender() : LateDevice(0) {}
  void commit(int seed) {
    const auto slot = pair_.sender(0).acquire(0, kBytes, after(10s));
    ASSERT_TRUE(slot);
    launch(
        *stream_,
        [seed](std::byte* data) { std::fill_n(data, kBytes, static_cast<std::byte>(seed)); },
        memory(slot->data, kBytes));
    pair_.sender(0).commit(*slot, {seed, 0, 0, 0}, stream_.get());
  }
};

TEST_F(LateSender, HasItsMessageSentWhileItIsElsewhere) {
  commit(7);
  EXPECT_FALSE(pair_.receiver(1).receive(after(20ms))) << "its device has yet to write it";
  go();
  pair_.receive(1, 7, after(kSoon));
}

// The receiver could only say that it has nothing, and that would be taken for a loss.
TEST_F(LateSender, AsksNobodyAboutWhatItHasNotSent) {
  commit(7);
  EXPECT_FALSE(pair_[0].drain(after(1'200ms)));
  go();
  pair_.receive(1, 7);
  EXPECT_EQ(pair_.sender(0).counters().control_messages, 0);
  EXPECT_EQ(pair_.sender(0).counters().resent, 0);
}

// A thread that enqueues work never stays away for long, nor does it wait.
TEST_F(LateSender, HasItsMessageSentWhileItCallsAllTheTime) {
  commit(7);
  go();
  std::atomic<bool> received{false};
  std::jthread receiving([&] {
    pair_.receive(1, 7);
    received = true;
  });
  for (const Deadline end = after(9s); !received && Clock::now() < end;)
    pair_.sender(0).abandon(pair_.sender(0).acquire(0, kBytes, Deadline{}).value());
  EXPECT_TRUE(received);
}

struct LateReceiver : LateDevice {
  LateReceiver() : LateDevice(1) {}
};
TEST_F(LateReceiver, HasItsSlotGivenBackWhileItIsElsewhere) {
  pair_.send(0, 7);
  const auto view = pair_.receiver(1).receive(after(10s));
  ASSERT_TRUE(view);
  pair_.receiver(1).release(*view, stream_.get());
  EXPECT_FALSE(pair_[0].drain(after(20ms))) << "its device has yet to read it";
  go();
  EXPECT_TRUE(pair_[0].drain(after(kSoon)));
}

TEST_F(LateReceiver, ReleasesAViewOnceThoughItIsReadLater) {
  pair_.send(0, 7);
  const auto view = pair_.receiver(1).receive(after(10s));
  ASSERT_TRUE(view);
  pair_.receiver(1).release(*view, stream_.get());
  EXPECT_THAT(thrown_by([&] { pair_.receiver(1).release(*view, stream_.get()); }),
              testing::HasSubstr("released twice"));
  go();
  EXPECT_TRUE(pair_[0].drain(after(10s)));
}

// Has no memory for one side's slots.
class PoorStore final : public SlotStore {
 public:
  explicit PoorStore(bool outgoing) : outgoing_(outgoing) {}
  std::unique_ptr<SlotMemory> make_outgoing(size_t bytes) override {
    return make(bytes, outgoing_);
  }
  std::unique_ptr<SlotMemory> make_incoming(size_t bytes, const SlotOffer&) override {
    return make(bytes, !outgoing_);
  }
  bool payload_travels() const override { return true; }

 private:
  static std::unique_ptr<SlotMemory> make(size_t bytes, bool fails) {
    if (fails) throw Error(ErrorCode::kUnavailable, "no memory");
    return std::make_unique<HeapMemory>(bytes);
  }
  const bool outgoing_;
};

TEST(LinkEndpoint, NamesBothWorkersWhenSlotsCannotBeMade) {
  for (const bool outgoing : {true, false}) {
    tests::PacketExchange exchange;
    LinkEndpoint poor(exchange.make_socket("worker 0"), make_cpu_device(),
                      {{TransportKind::kIpc, std::make_shared<PoorStore>(outgoing)}});
    LinkEndpoint other(exchange.make_socket("worker 1"), make_cpu_device(),
                       {{TransportKind::kIpc, std::make_shared<HeapStore>()}});
    const auto open = [](LinkEndpoint& endpoint, int self, const std::string& address) {
      Wiring wiring;
      wiring.self = self;
      wiring.addresses[1 - self] = address;
      wiring.send[1 - self] = wiring.receive[1 - self] = {{kBytes, 2}};
      endpoint.open(wiring, after(10s));
    };
    std::jthread opening([&] { thrown_by([&] { open(other, 1, poor.address()); }); });
    EXPECT_EQ(thrown_by([&] { open(poor, 0, other.address()); }),
              outgoing ? "slots for worker 1: no memory" : "slots of worker 1: no memory");
    other.interrupt();
  }
}

TEST(DataThread, TellsEveryLaterCallWhatItFailedBy) {
  Pair pair;
  const Slot slot = pair.sender(1).acquire(0, kBytes, after(10s)).value();
  const Slot other = pair.sender(1).acquire(0, kBytes, after(10s)).value();
  pair.send(0, 7);
  const View view = pair.receiver(1).receive(after(10s)).value();
  ASSERT_TRUE(pair.exchange.wait_until_taken(1, after(10s)));
  const int64_t looks = pair.exchange.looks(1);
  pair.exchange.fail(1, "no network");
  for (const Deadline end = after(10s); pair.exchange.looks(1) == looks && Clock::now() < end;)
    std::this_thread::sleep_for(1ms);
  const std::vector<std::function<void()>> calls{
      [&] { (void)pair.sender(1).acquire(0, 1, after(10s)); },
      [&] { pair.sender(1).commit(slot, {}); },
      [&] { pair.sender(1).abandon(other); },
      [&] { (void)pair.receiver(1).receive(after(10s)); },
      [&] { pair.receiver(1).release(view); },
      [&] { (void)pair[1].drain(after(10s)); }};
  for (const auto& call : calls) EXPECT_EQ(thrown_by(call), "no network");
  EXPECT_EQ(pair[1].counters().messages, 1) << "what was counted can still be told";
}

// Whoever comes back in the middle of a copy gets on, and loses nothing: both compute threads are
// away for random times, so that all turns are taken in many orders.
TEST(DataThread, TakesTurnsWithItsComputeThread) {
  constexpr int kMessages = 100;
  Pair pair;
  std::array<Clock::duration, 2> longest{};
  const auto work = [&](int self) {
    std::mt19937 random(static_cast<uint32_t>(self));
    const auto compute = [&] {
      const auto until = after(std::chrono::microseconds(random() % 400));
      if (random() % 2 == 0) std::this_thread::sleep_until(until);
      while (Clock::now() < until) {
      }
    };
    for (int i = 0; i < kMessages; ++i) {
      const Clock::time_point begin = Clock::now();
      compute();
      pair.send(self, i % 128);
      compute();
      pair.receive(self, i % 128);
      longest.at(static_cast<size_t>(self)) =
          std::max(longest.at(static_cast<size_t>(self)), Clock::now() - begin);
    }
    EXPECT_TRUE(pair[self].drain(after(10s)));
  };
  std::jthread other([&] { work(1); });
  work(0);
  other.join();
  EXPECT_EQ(pair[0].counters().messages, 2 * kMessages);
  // On a host that has no time for them for a second, they ask for what is only late.
  if (std::ranges::max(longest) < kSoon / 2) {
    EXPECT_EQ(pair[0].counters().resent + pair[0].counters().dropped, 0);
  }
}

TEST(DataThread, EndsAtOnceWhileItSleeps) {
  Pair pair;
  ASSERT_TRUE(pair.exchange.wait_until_taken(1, after(10s)));
  std::this_thread::sleep_for(5ms);
  const Clock::time_point begin = Clock::now();
  pair.destroy(1);
  EXPECT_LT(Clock::now() - begin, kSoon);
}

// Whoever has a handler reckons with its own threads, which block the signal here.
TEST(DataThread, LeavesSignalsToOthers) {
  const Pair pair;
  sigset_t one, before;
  ::sigemptyset(&one);
  ::sigaddset(&one, SIGUSR1);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &one, &before), 0);
  ASSERT_EQ(::kill(::getpid(), SIGUSR1), 0);  // the end of a process that takes it
  std::this_thread::sleep_for(5ms);
  const timespec now{};
  EXPECT_EQ(::sigtimedwait(&one, nullptr, &now), SIGUSR1) << "another thread has it";
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// A compute thread that is interrupted goes, with messages under way in both directions.
TEST(DataThread, EndsWithItsEndpointAtAnyMoment) {
  for (int turn = 0; turn < 40; ++turn) {
    Pair pair;
    std::barrier<> all(3);
    const auto work = [&](int self) {
      all.arrive_and_wait();
      const std::string thrown = thrown_by([&] {
        for (int i = 0;; i = (i + 1) % 128) {
          pair.send(self, i, Deadline::max());
          pair.receive(self, i, Deadline::max());
        }
      });
      EXPECT_EQ(thrown, "interrupted");
      all.arrive_and_wait();
      pair.destroy(self);
    };
    std::jthread first([&] { work(0); });
    std::jthread second([&] { work(1); });
    all.arrive_and_wait();
    std::this_thread::sleep_for(std::chrono::microseconds(turn * 97 % 2'000));
    for (const int worker : {0, 1}) pair[worker].interrupt();
    all.arrive_and_wait();
  }
}

}  // namespace
}  // namespace kerf::runtime
