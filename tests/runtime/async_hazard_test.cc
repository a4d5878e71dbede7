// What the device "async-test" reports, and what it does not: hazards by kind, each with what
// orders it. Nothing here races: work does not touch what it declares, and what copies is ordered
// by waits that the reports do not see.
#include <gmock/gmock.h>

#include <memory>
#include <thread>

#include "runtime/host_work.h"
#include "tests/support/async_device.h"

namespace kerf::tests {
namespace {

using runtime::Buffer;
using runtime::Event;
using runtime::Stream;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class AsyncHazard : public testing::Test {
 protected:
  void read(Stream& stream, size_t begin = 0, size_t end = 100) {
    runtime::launch(
        stream, [](const std::byte*) {}, runtime::memory(constant(begin), end - begin));
  }
  void write(Stream& stream, size_t begin = 0, size_t end = 100) {
    runtime::launch(
        stream, [](std::byte*) {}, runtime::memory(buffer_.data() + begin, end - begin));
  }
  const std::byte* constant(size_t begin) const { return buffer_.data() + begin; }
  // What is behind it in `second` comes after what is before it in `first`.
  void order(Stream& first, Stream& second) {
    first.record(*event_);
    second.wait(*event_);
  }
  void order_unseen(Stream& first, Stream& second) {
    world_->drop_wait(world_->waits());
    order(first, second);
  }
  std::vector<std::string> reports() const { return world_->reports(); }

  const std::shared_ptr<AsyncWorld> world_ = std::make_shared<AsyncWorld>(1);
  const std::unique_ptr<runtime::Device> device_ = make_async_device(world_);
  Buffer buffer_ = device_->allocate(100);
  const std::unique_ptr<Stream> a_ = device_->make_stream();
  const std::unique_ptr<Stream> b_ = device_->make_stream();
  const std::unique_ptr<Stream> c_ = device_->make_stream();
  const std::unique_ptr<Event> event_ = device_->make_event();
};

TEST_F(AsyncHazard, OfAReadOfWhatAnotherStreamWritesIsReported) {
  write(*a_, 10, 20);
  read(*b_, 0, 11);
  EXPECT_THAT(reports(), ElementsAre("allocation 0: read of [0, 11) by operation 1 of stream 1 is "
                                     "not ordered after write of [10, 20) by operation 1 of "
                                     "stream 0"));
}

TEST_F(AsyncHazard, OfAWriteOfWhatAnotherStreamReadsIsReported) {
  read(*a_);
  write(*b_);
  EXPECT_THAT(reports(), SizeIs(1));
}

TEST_F(AsyncHazard, OfTwoWritesIsReported) {
  write(*a_);
  write(*b_);
  EXPECT_THAT(reports(), SizeIs(1));
}

TEST_F(AsyncHazard, OfTwoReadsIsNone) {
  read(*a_);
  read(*b_);
  EXPECT_THAT(reports(), IsEmpty());
}

TEST_F(AsyncHazard, OfBytesThatAreNotTheSameIsNone) {
  write(*a_, 0, 50);
  write(*b_, 50, 100);
  EXPECT_THAT(reports(), IsEmpty());
}

TEST_F(AsyncHazard, WithinAStreamIsNone) {
  for (int i = 0; i < 3; ++i) {
    write(*a_);
    read(*a_);
  }
  EXPECT_THAT(reports(), IsEmpty());
}

TEST_F(AsyncHazard, IsNoneWhereAnEventOrders) {
  write(*a_);
  order(*a_, *b_);
  read(*b_);
  order(*b_, *a_);
  write(*a_);
  EXPECT_THAT(reports(), IsEmpty());
}

TEST_F(AsyncHazard, IsNoneWhereEventsOrderOverAThirdStream) {
  write(*a_);
  order(*a_, *b_);
  order(*b_, *c_);
  write(*c_);
  EXPECT_THAT(reports(), IsEmpty());
}

TEST_F(AsyncHazard, IsReportedWhereTheWaitIsInAnotherStream) {
  write(*a_);
  order(*a_, *b_);
  write(*c_);
  EXPECT_THAT(reports(), SizeIs(1));
}

TEST_F(AsyncHazard, IsReportedWhereTheEventIsRecordedTooEarly) {
  write(*a_, 0, 50);
  a_->record(*event_);
  write(*a_, 50, 100);
  b_->wait(*event_);
  read(*b_, 0, 50);
  EXPECT_THAT(reports(), IsEmpty());
  read(*b_, 50, 100);
  EXPECT_THAT(reports(), SizeIs(1));
}

TEST_F(AsyncHazard, IsReportedWhereTheWaitComesBeforeTheRecord) {
  b_->wait(*event_);
  write(*a_);
  a_->record(*event_);
  read(*b_);
  EXPECT_THAT(reports(), SizeIs(1));
}

TEST_F(AsyncHazard, IsNoneWhereTheHostHasWaitedForTheStream) {
  write(*a_);
  a_->synchronize();
  write(*b_);
  EXPECT_THAT(reports(), IsEmpty());
}

TEST_F(AsyncHazard, IsNoneWhereTheHostHasWaitedForTheEvent) {
  write(*a_);
  a_->record(*event_);
  event_->wait();
  write(*b_);
  EXPECT_THAT(reports(), IsEmpty());
}

TEST_F(AsyncHazard, IsNoneWhereTheHostHasSeenTheEventReady) {
  write(*a_);
  a_->record(*event_);
  while (!event_->ready()) std::this_thread::sleep_for(std::chrono::microseconds(100));
  write(*b_);
  EXPECT_THAT(reports(), IsEmpty());
}

TEST_F(AsyncHazard, IsReportedWhereTheHostHasWaitedForAnotherStream) {
  write(*a_);
  b_->synchronize();
  write(*b_);
  EXPECT_THAT(reports(), SizeIs(1));
}

TEST_F(AsyncHazard, OfCopiesAndFillsIsReportedAsOfWork) {
  const Buffer other = device_->allocate(100);
  write(*a_);
  order_unseen(*a_, *b_);
  b_->copy(other.data(), buffer_.data(), 50);
  EXPECT_THAT(reports(), ElementsAre(HasSubstr("0: read of [0, 50) by operation 2 of stream 1")));
  order_unseen(*b_, *c_);
  c_->fill_zero(other.data(), 10);
  EXPECT_THAT(reports(), Contains(HasSubstr("1: write of [0, 10) by operation 2 of stream 2")));
  order_unseen(*c_, *a_);
  a_->copy(buffer_.data(), other.data() + 5, 5);
  EXPECT_THAT(reports(), SizeIs(2 + 3)) << "b read and wrote, c wrote";
  a_->synchronize();
}

TEST_F(AsyncHazard, IsReportedOnceForTwoPiecesOfWorkHoweverTheirBytesAreSplit) {
  write(*a_);
  for (size_t i = 0; i < 100; i += 10) read(*a_, i, i + 5);
  a_->synchronize();
  write(*a_);
  write(*b_);
  EXPECT_THAT(reports(), SizeIs(1));
}

TEST_F(AsyncHazard, OfMemoryOfAnotherDeviceOfTheWorldIsReported) {
  const auto device = make_async_device(world_);
  const auto stream = device->make_stream();
  write(*a_);
  write(*stream);
  EXPECT_THAT(reports(), SizeIs(1));
}

TEST_F(AsyncHazard, OfMemoryFreedInUseIsReported) {
  write(*a_, 0, 10);
  buffer_ = Buffer();
  EXPECT_THAT(reports(), ElementsAre("allocation 0: freed by host thread 0, which has not waited "
                                     "for write of [0, 10) by operation 1 of stream 0"));
}

TEST_F(AsyncHazard, OfMemoryFreedAfterItsUseIsNone) {
  write(*a_);
  a_->synchronize();
  buffer_ = Buffer();
  EXPECT_THAT(reports(), IsEmpty());
}

TEST_F(AsyncHazard, OfMemoryUsedAfterItIsFreedIsReportedAndTheWorkNotDone) {
  std::byte* data = buffer_.data();
  buffer_ = Buffer();
  const Buffer next = device_->allocate(100);
  EXPECT_NE(next.data(), data) << "no address has two owners";
  a_->fill_zero(data, 100);
  a_->synchronize();
  EXPECT_THAT(reports(), ElementsAre("allocation 0: freed before write of [0, 100) by operation 1 "
                                     "of stream 0"));
}

TEST_F(AsyncHazard, OfARangeOverTheEndIsReportedAndTheWorkNotDone) {
  bool done = false;
  runtime::launch(
      *a_, [&done](std::byte*) { done = true; }, runtime::memory(buffer_.data() + 50, 51));
  a_->copy(buffer_.data() + 101, buffer_.data(), 1);
  a_->synchronize();
  EXPECT_FALSE(done);
  EXPECT_THAT(reports(), ElementsAre("allocation 0: has 100 bytes, too few for write of [50, 101) "
                                     "by operation 1 of stream 0",
                                     HasSubstr("too few for write of [101, 102)")));
}

TEST_F(AsyncHazard, OfPinnedMemoryIsReportedUntilItIsFreed) {
  auto pinned = device_->allocate_pinned(8);
  a_->copy(pinned.get(), buffer_.data(), 8);
  order_unseen(*a_, *b_);
  b_->copy(pinned.get(), buffer_.data(), 8);
  EXPECT_THAT(reports(), SizeIs(1));
  a_->synchronize();
  pinned.reset();
  EXPECT_THAT(reports(), SizeIs(2)) << "stream b is not waited for";
  b_->synchronize();
}

TEST_F(AsyncHazard, OfTheHostItselfIsReportedWhereItSaysWhatItTouches) {
  const auto pinned = device_->allocate_pinned(8);
  world_->host_writes(pinned.get(), 8);
  a_->copy(buffer_.data(), pinned.get(), 8);  // enqueued behind it
  world_->host_reads(pinned.get(), 8);
  EXPECT_THAT(reports(), IsEmpty());
  world_->host_writes(pinned.get() + 4, 4);
  EXPECT_THAT(reports(), SizeIs(1));
  a_->synchronize();
  world_->host_writes(pinned.get(), 8);
  EXPECT_THAT(reports(), SizeIs(1));
}

TEST_F(AsyncHazard, OfAThreadThatHasNotBeenToldIsReported) {
  write(*a_);
  a_->synchronize();
  std::jthread([&] { write(*b_); }).join();
  EXPECT_THAT(reports(), SizeIs(1));
  write(*a_);
  EXPECT_THAT(reports(), SizeIs(2)) << "nor has this thread seen what the other did";
}

TEST_F(AsyncHazard, OfAThreadThatWasToldIsNone) {
  write(*a_);
  a_->synchronize();
  Clock told = world_->seen();
  std::jthread([&] {
    world_->see(told);
    write(*b_);
    b_->synchronize();
    told = world_->seen();
  }).join();
  world_->see(told);
  write(*a_);
  EXPECT_THAT(reports(), IsEmpty());
}

TEST_F(AsyncHazard, OfAThreadThatAwaitsAnEventOfAnotherIsNone) {
  write(*a_);
  a_->record(*event_);
  std::jthread([&] {
    b_->wait(*event_);
    write(*b_);
  }).join();
  EXPECT_THAT(reports(), IsEmpty());
}

TEST_F(AsyncHazard, OfAStreamThatHasEndedIsNone) {
  auto stream = device_->make_stream();
  write(*stream);
  stream.reset();
  write(*a_);
  EXPECT_THAT(reports(), IsEmpty());
}

TEST_F(AsyncHazard, OfWhatADroppedWaitOrderedIsReported) {
  world_->drop_wait(1);
  write(*a_);
  order(*a_, *b_);
  read(*b_);
  EXPECT_THAT(reports(), IsEmpty());
  order(*b_, *a_);
  write(*a_);
  EXPECT_THAT(reports(), SizeIs(1));
  EXPECT_EQ(world_->waits(), 2u);
}

TEST_F(AsyncHazard, OfWhatADroppedWaitOfTheHostOrderedIsReported) {
  const auto pinned = device_->allocate_pinned(8);
  for (const size_t wait : {0u, 1u}) world_->drop_wait(wait);
  a_->copy(pinned.get(), buffer_.data(), 8);
  a_->record(*event_);
  event_->wait();
  world_->host_reads(pinned.get(), 8);
  EXPECT_THAT(reports(), SizeIs(1));
  EXPECT_EQ(pinned[7], std::byte{0xa5}) << "it did wait";
  a_->synchronize();
  world_->host_reads(pinned.get(), 8);
  EXPECT_THAT(reports(), SizeIs(2));
  a_->synchronize();
  world_->host_reads(pinned.get(), 8);
  EXPECT_THAT(reports(), SizeIs(2));
  EXPECT_EQ(world_->waits(), 3u);
}

TEST_F(AsyncHazard, IsNoneWhereADroppedWaitWasNeedless) {
  world_->drop_wait(0);
  write(*a_);
  order(*a_, *b_);
  order(*a_, *b_);
  read(*b_);
  EXPECT_THAT(reports(), IsEmpty());
}

// What is looked through for an access does not grow with the accesses there were.
TEST(AsyncHistory, ForgetsWhatLaterAccessesCover) {
  constexpr size_t kPieces = 100;
  History history(kPieces * 64);
  Clock clock;
  for (size_t i = 0; i < 20'000; ++i) {
    const size_t begin = i * 79 % kPieces * 64;
    const uint64_t time = clock.tick(0);
    EXPECT_THAT(history.add({0, time, begin, begin + 64, i % 3 == 0}, clock), IsEmpty());
    EXPECT_LE(history.kept(), 2 * kPieces);
  }
}

}  // namespace
}  // namespace kerf::tests
