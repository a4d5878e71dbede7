// Channels between devices that are late: what is committed has been written before anybody reads
// it, what is released has been read before anybody writes over it, and no host waits for that, nor
// comes back for it.
#include "tests/conformance/late_channel.h"

namespace kerf::runtime {
namespace {

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

// Slots are memory as the device's own: what only streams and kernels do, they do there.
TEST_P(LateChannel, HasSlotsThatStreamsReachThemselves) {
  const auto slot = net_.sender(0, 1).acquire(0, kLateBytes, after(10s));
  ASSERT_TRUE(slot);
  writer_->fill_zero(slot->data, kLateBytes);
  net_.sender(0, 1).commit(*slot, {}, writer_.get());
  const auto view = net_.receiver(0, 1).receive(after(10s));
  ASSERT_TRUE(view);
  if (view->ready != nullptr) reader_->wait(*view->ready);
  const Buffer copy = net_.device(1).allocate(kLateBytes);
  reader_->copy(copy.data(), view->data, kLateBytes);
  net_.receiver(0, 1).release(*view, reader_.get());
  const PinnedMemory here = net_.device(1).allocate_pinned(kLateBytes);
  reader_->copy(here.get(), copy.data(), kLateBytes);
  reader_->synchronize();
  EXPECT_TRUE(std::all_of(here.get(), here.get() + kLateBytes,
                          [](std::byte each) { return each == std::byte{0}; }));
}

}  // namespace
}  // namespace kerf::runtime
