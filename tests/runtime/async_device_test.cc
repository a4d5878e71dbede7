// The device "async-test" as a device: memory that the processor cannot touch, work that is late.
// What every device promises is asked in tests/conformance/device_conformance_test.cc.
#include "tests/support/async_device.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <latch>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "runtime/error.h"
#include "runtime/host_work.h"
#include "tests/support/errors.h"

namespace kerf::tests {
namespace {

using runtime::Buffer;
using runtime::launch;
using runtime::memory;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;

class AsyncDeviceTest : public testing::Test {
 protected:
  template <class T>
  static T* of(const Buffer& buffer) {
    return reinterpret_cast<T*>(buffer.data());
  }
  std::vector<std::byte> content(const Buffer& buffer) {
    std::vector<std::byte> bytes(buffer.bytes());
    stream_->copy(bytes.data(), buffer.data(), bytes.size());
    stream_->synchronize();
    return bytes;
  }

  const std::shared_ptr<AsyncWorld> world_ = std::make_shared<AsyncWorld>(1);
  const std::unique_ptr<runtime::Device> device_ = make_async_device(world_);
  const std::unique_ptr<runtime::Stream> stream_ = device_->make_stream();
  const std::unique_ptr<runtime::Event> event_ = device_->make_event();
};

using AsyncDeviceDeathTest = AsyncDeviceTest;

TEST_F(AsyncDeviceDeathTest, TheProcessorDiesOfTouchingDeviceMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Buffer buffer = device_->allocate(10'000);
  volatile std::byte* data = buffer.data();
  EXPECT_DEATH((void)data[0], "");
  EXPECT_DEATH(data[9'999] = std::byte{0}, "");
}

TEST_F(AsyncDeviceTest, FreshMemoryHoldsAPattern) {
  EXPECT_THAT(content(device_->allocate(5000)), Each(std::byte{0xa5}));
  const auto pinned = device_->allocate_pinned(10);
  EXPECT_EQ(pinned[9], std::byte{0xa5});
}

TEST_F(AsyncDeviceTest, CapacityIsThatOfTheOptionsForAllItsMemory) {
  const auto device = make_async_device(world_, {.capacity = 1000, .begin_thread = {}});
  const Buffer half = device->allocate(500);
  const auto error = error_of([&] { (void)device->allocate(501); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ErrorCode::kUnavailable);
  EXPECT_THAT(error->what(), HasSubstr("async-test: no memory for 501 bytes"));
  EXPECT_TRUE(device->allocate(500));
  EXPECT_EQ(device->memory().capacity, 1000u);
}

TEST_F(AsyncDeviceTest, WorkFindsDeviceMemoryPinnedMemoryAndThatOfTheHost) {
  const Buffer sum = device_->allocate(sizeof(int));
  const auto pinned = device_->allocate_pinned(sizeof(int));
  auto* addend = reinterpret_cast<int*>(pinned.get());
  *addend = 30;
  const int plain = 4;
  launch(
      *stream_, [](int* y, const int* a, const int* b) { *y = *a + *b; }, memory(of<int>(sum), 1),
      memory<const int>(addend, 1), memory(&plain, 1));
  int result = 0;
  stream_->copy(&result, sum.data(), sizeof(int));
  stream_->synchronize();
  EXPECT_EQ(result, 34);
}

TEST_F(AsyncDeviceTest, WorkHasItsArgumentsFromItsLaunch) {
  const Buffer buffer = device_->allocate(sizeof(int));
  int result = 0;
  {
    int value = 1;
    const auto work = [value](int* y) { *y = value; };
    launch(*stream_, work, memory(of<int>(buffer), 1));
    value = 2;
    stream_->copy(&result, buffer.data(), sizeof(int));
  }
  stream_->synchronize();
  EXPECT_EQ(result, 1);
}

TEST_F(AsyncDeviceTest, CopiesFromTheHostTakeTheBytesAtTheCall) {
  const Buffer buffer = device_->allocate(sizeof(int));
  int value = 1;
  stream_->copy(buffer.data(), &value, sizeof(int));
  value = 2;
  int result = 0;
  stream_->copy(&result, buffer.data(), sizeof(int));
  stream_->synchronize();
  EXPECT_EQ(result, 1);
}

TEST_F(AsyncDeviceTest, CopiesFromPinnedMemoryTakeTheBytesInTheirTurn) {
  const Buffer buffer = device_->allocate(1);
  const auto pinned = device_->allocate_pinned(1);
  launch(
      *stream_, [](std::byte* y) { *y = std::byte{7}; }, memory(pinned.get(), 1));
  stream_->copy(buffer.data(), pinned.get(), 1);
  EXPECT_THAT(content(buffer), Each(std::byte{7}));
}

TEST_F(AsyncDeviceTest, PinnedMemoryMayOutliveTheDevice) {
  auto device = make_async_device(std::make_shared<AsyncWorld>(1));
  const auto pinned = device->allocate_pinned(100);
  device.reset();
  std::memset(pinned.get(), 0, 100);
}

TEST_F(AsyncDeviceTest, MemoryFreedInUseStaysUntilTheWorkIsDone) {
  Buffer buffer = device_->allocate(1);
  auto pinned = device_->allocate_pinned(1);
  for (int i = 0; i < 50; ++i) stream_->copy(pinned.get(), buffer.data(), 1);
  buffer = Buffer();
  pinned.reset();
  stream_->synchronize();
  EXPECT_EQ(world_->reports().size(), 2u);
}

TEST_F(AsyncDeviceTest, ErrorsOfWorkAreThrownByTheNextCallOfTheStreamOnce) {
  const auto fail = [&] { launch(*stream_, [] { throw std::runtime_error("too hot"); }); };
  const auto fails = [&](auto&& call) {
    fail();
    stream_->record(*event_);
    while (!event_->ready()) std::this_thread::sleep_for(std::chrono::microseconds(100));
    EXPECT_THROW(call(), std::runtime_error);
    EXPECT_NO_THROW(call());
  };
  fails([&] { stream_->synchronize(); });
  fails([&] { launch(*stream_, [] {}); });
  fails([&] { stream_->copy(nullptr, nullptr, 0); });
  fails([&] { stream_->fill_zero(nullptr, 0); });
  fails([&] { event_->wait(); });
  fail();
  EXPECT_THROW(stream_->synchronize(), std::runtime_error);
}

TEST_F(AsyncDeviceTest, ErrorsOfWorkAreNotThrownByWaitsForWhatIsBeforeIt) {
  stream_->record(*event_);
  launch(*stream_, [] { throw std::runtime_error("too hot"); });
  event_->wait();
  EXPECT_THROW(stream_->synchronize(), std::runtime_error);
}

TEST_F(AsyncDeviceTest, OfErrorsTheFirstIsThrown) {
  std::latch go(1);
  launch(*stream_, [&] {
    go.wait();  // so that the next launch is no call that throws
    throw std::runtime_error("too hot");
  });
  launch(*stream_, [] { throw std::logic_error("too cold"); });
  go.count_down();
  EXPECT_THROW(stream_->synchronize(), std::runtime_error);
  EXPECT_NO_THROW(stream_->synchronize());
}

TEST_F(AsyncDeviceTest, WorkBehindAnErrorIsDone) {
  std::latch go(1);
  std::atomic<bool> done = false;
  launch(*stream_, [&] {
    go.wait();  // so that the next launch is no call that throws
    throw std::runtime_error("too hot");
  });
  launch(*stream_, [&] { done = true; });
  go.count_down();
  EXPECT_THROW(stream_->synchronize(), std::runtime_error);
  EXPECT_TRUE(done);
}

TEST_F(AsyncDeviceTest, EventsArePointsInAStreamUntilTheirWorkIsDone) {
  std::latch go(1);
  launch(*stream_, [&] { go.wait(); });
  stream_->record(*event_);
  EXPECT_FALSE(event_->ready());
  go.count_down();
  event_->wait();
  EXPECT_TRUE(event_->ready());
}

TEST_F(AsyncDeviceTest, AStreamWaitsForTheRecordThatWasTheLastWhenItWasTold) {
  std::latch first(1), second(1);
  const auto other = device_->make_stream();
  std::atomic<bool> reached = false;
  launch(*stream_, [&] { first.wait(); });
  stream_->record(*event_);
  other->wait(*event_);
  launch(*other, [&] { reached = true; });
  launch(*stream_, [&] { second.wait(); });
  stream_->record(*event_);
  EXPECT_FALSE(reached);
  first.count_down();
  other->synchronize();  // would last for ever if it waited for the second
  EXPECT_TRUE(reached);
  EXPECT_FALSE(event_->ready());
  second.count_down();
  event_->wait();
}

TEST_F(AsyncDeviceTest, AStreamThatEndsDoesItsWorkFirst) {
  constexpr int kWork = 50;
  std::atomic<int> done = 0;
  auto ending = device_->make_stream();
  for (int i = 0; i < kWork; ++i) launch(*ending, [&] { ++done; });
  ending->record(*event_);
  stream_->wait(*event_);
  ending.reset();
  EXPECT_EQ(done, kWork);
  stream_->synchronize();
}

TEST_F(AsyncDeviceTest, EventsAreOfOneWorld) {
  const auto stranger = make_async_device(std::make_shared<AsyncWorld>(1))->make_event();
  EXPECT_THROW(stream_->record(*stranger), Error);
  EXPECT_THROW(stream_->wait(*stranger), Error);
}

TEST_F(AsyncDeviceTest, EachStreamHasAThreadThatBeginsAsTold) {
  std::mutex mutex;
  std::set<std::thread::id> begun;
  const auto begin = [&] {
    const std::lock_guard lock(mutex);
    begun.insert(std::this_thread::get_id());
  };
  const auto device = make_async_device(world_, {.capacity = 0, .begin_thread = begin});
  const auto a = device->make_stream(), b = device->make_stream();
  for (const auto* stream : {&a, &b}) (*stream)->synchronize();
  EXPECT_EQ(begun.size(), 2u);
  EXPECT_FALSE(begun.contains(std::this_thread::get_id()));
}

// The order in which two streams did ten pieces of work each.
std::string order_under(uint64_t seed) {
  const auto device = make_async_device(std::make_shared<AsyncWorld>(seed));
  const auto a = device->make_stream(), b = device->make_stream();
  std::mutex mutex;
  std::string order;
  const auto add = [&](runtime::Stream& stream, char name) {
    launch(stream, [&, name] {
      const std::lock_guard lock(mutex);
      order += name;
    });
  };
  for (int i = 0; i < 10; ++i) {
    add(*a, 'a');
    add(*b, 'b');
  }
  a->synchronize();
  b->synchronize();
  return order;
}

TEST(AsyncDelays, GiveOtherSeedsOtherOrders) {
  std::set<std::string> orders;
  // A busy machine may begin the second thread when the first is through.
  for (uint64_t seed = 0; seed < 2000 && orders.size() <= 3; ++seed) {
    orders.insert(order_under(seed));
    EXPECT_EQ(orders.begin()->size(), 20u);
  }
  EXPECT_GT(orders.size(), 3u);
}

TEST(AsyncDelays, HoldSomeWorkBackWhileNoHostWaits) {
  using std::chrono::steady_clock;
  AsyncDelays delays(1);
  auto random = delays.random(0);
  int held = 0;
  for (int i = 0; i < 100; ++i) {
    const auto begin = steady_clock::now();
    delays.delay(random);
    held += steady_clock::now() - begin >= std::chrono::milliseconds(2);
  }
  EXPECT_GT(held, 3);
}

TEST(AsyncDelays, LetWorkBeDoneBeforeTheHostWaitsOrAfter) {
  std::set<bool> seen;
  for (uint64_t seed = 0; seed < 2000 && seen.size() < 2; ++seed) {
    const auto device = make_async_device(std::make_shared<AsyncWorld>(seed));
    const auto stream = device->make_stream();
    std::atomic<bool> done = false;
    launch(*stream, [&] { done = true; });
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    seen.insert(done);
    stream->synchronize();
    EXPECT_TRUE(done);
  }
  EXPECT_EQ(seen.size(), 2u);
}

}  // namespace
}  // namespace kerf::tests
