// Channels between devices that are late: what is committed has been written before anybody reads
// it, what is released has been read before anybody writes over it, and no host waits for that, nor
// comes back for it.
#include <atomic>

#include "runtime/host_work.h"
#include "tests/conformance/channel_fixture.h"
#include "tests/support/async_device.h"

namespace kerf::runtime {
namespace {

constexpr size_t kBytes = 100'000;

class LateChannel : public testing::TestWithParam<TransportKind> {
 protected:
  LateChannel()
      : net_(GetParam(), {tests::make_async_device(world_), tests::make_async_device(world_)}) {
    const auto open = [this](int self) {
      net_[self].open(net_.wiring(self, one_lane(kBytes, 1)), after(10s));
    };
    std::jthread other([&] { open(1); });
    open(0);
  }
  ~LateChannel() override {
    EXPECT_TRUE(net_[0].drain(after(10s)));
    writer_->synchronize();
    reader_->synchronize();
    EXPECT_THAT(world_->reports(), testing::IsEmpty());
  }

  // Committed at once, written when the stream comes to it.
  Slot send(uint64_t seed, bool retained = false) {
    const auto slot = net_.sender(0, 1).acquire(0, kBytes, after(10s));
    KERF_CHECK(slot, "no slot came free");
    if (slot->writable != nullptr) writer_->wait(*slot->writable);
    launch(
        *writer_,
        [seed](std::byte* data) {
          std::this_thread::sleep_for(5ms);
          for (size_t i = 0; i < kBytes; ++i) data[i] = pattern(seed, i);
        },
        memory(slot->data, kBytes));
    if (retained) net_.sender(0, 1).retain(*slot);
    net_.sender(0, 1).commit(*slot, {static_cast<int32_t>(seed), 0, 0, 0}, writer_.get());
    return *slot;
  }
  void look(Stream& stream, uint64_t seed, const std::byte* at) {
    launch(
        stream,
        [seed, this](const std::byte* data) {
          std::this_thread::sleep_for(5ms);
          size_t wrong = 0;
          for (size_t i = 0; i < kBytes; ++i) wrong += data[i] == pattern(seed, i) ? 0 : 1;
          wrong_ += wrong;
          ++read_;
        },
        memory(at, kBytes));
  }
  // Released at once, looked at when the stream comes to it.
  void receive(uint64_t seed) {
    const auto view = net_.receiver(0, 1).receive(after(10s));
    ASSERT_TRUE(view);
    EXPECT_EQ(view->tag[0], static_cast<int32_t>(seed));
    if (view->ready != nullptr) reader_->wait(*view->ready);
    look(*reader_, seed, view->data);
    net_.receiver(0, 1).release(*view, reader_.get());
  }

  const std::shared_ptr<tests::AsyncWorld> world_ = std::make_shared<tests::AsyncWorld>(1);
  Net net_;
  const std::unique_ptr<Stream> writer_ = net_.device(0).make_stream();
  const std::unique_ptr<Stream> reader_ = net_.device(1).make_stream();
  std::atomic<size_t> wrong_{0};
  std::atomic<int> read_{0};
};

TEST_P(LateChannel, BringsWhatTheStreamHasWrittenByThen) {
  constexpr int kMessages = 20;
  std::jthread receiver([&] {
    for (int i = 0; i < kMessages; ++i) receive(static_cast<uint64_t>(i));
    reader_->synchronize();
  });
  for (int i = 0; i < kMessages; ++i) send(static_cast<uint64_t>(i));
  receiver.join();
  EXPECT_EQ(read_, kMessages);
  EXPECT_EQ(wrong_, 0U);
}

// The stream is held until the host has committed and done something else.
TEST_P(LateChannel, LetsTheHostGoOn) {
  std::atomic<bool> went_on{false};
  std::atomic<bool> held{false};
  launch(*writer_, [&] {
    const Deadline patience = after(10s);
    while (!went_on && Clock::now() < patience) std::this_thread::sleep_for(1ms);
    held = !went_on;
  });
  send(1);
  EXPECT_EQ(net_[0].counters().messages, 1);
  went_on = true;
  std::jthread receiver([&] {
    receive(1);
    reader_->synchronize();
  });
  receiver.join();
  EXPECT_FALSE(held) << "the host waited for the stream";
  EXPECT_EQ(read_, 1);
  EXPECT_EQ(wrong_, 0U);
}

// Both streams read the slot when they come to it; the next message waits for both.
TEST_P(LateChannel, IsReadByItsSenderToo) {
  constexpr int kMessages = 10;
  std::jthread receiver([&] {
    for (int i = 0; i < kMessages; ++i) receive(static_cast<uint64_t>(i));
    reader_->synchronize();
  });
  for (int i = 0; i < kMessages; ++i) {
    const Slot slot = send(static_cast<uint64_t>(i), /*retained=*/true);
    look(*writer_, static_cast<uint64_t>(i), slot.data);
    net_.sender(0, 1).retire(slot);
  }
  writer_->synchronize();
  receiver.join();
  EXPECT_EQ(read_, 2 * kMessages);
  EXPECT_EQ(wrong_, 0U);
}

INSTANTIATE_TEST_SUITE_P(Over, LateChannel,
                         testing::Values(TransportKind::kInproc, TransportKind::kShm,
                                         TransportKind::kIpc, TransportKind::kTcp),
                         name_of_kind);

}  // namespace
}  // namespace kerf::runtime
