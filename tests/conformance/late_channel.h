// Channels between devices that are late, which whoever links this says what they are.
#pragma once

#include <atomic>

#include "runtime/host_work.h"
#include "tests/conformance/channel_fixture.h"

namespace kerf::runtime {

// Two devices that are late, and what they complain of at the end.
class LateDevices {
 public:
  virtual ~LateDevices() = default;
  virtual std::shared_ptr<Device> make() = 0;
  virtual std::vector<std::string> complaints() = 0;
};
std::unique_ptr<LateDevices> make_late_devices();

inline constexpr size_t kLateBytes = 100'000;

class LateChannel : public testing::TestWithParam<TransportKind> {
 protected:
  LateChannel() : net_(GetParam(), {devices_->make(), devices_->make()}) {
    const auto open = [this](int self) {
      net_[self].open(net_.wiring(self, one_lane(kLateBytes, 1)), after(10s));
    };
    std::jthread other([&] { open(1); });
    open(0);
  }
  ~LateChannel() override {
    EXPECT_TRUE(net_[0].drain(after(10s)));
    writer_->synchronize();
    reader_->synchronize();
    EXPECT_THAT(devices_->complaints(), testing::IsEmpty());
  }

  // Committed at once, written when the stream comes to it.
  Slot send(uint64_t seed, bool retained = false) {
    const auto slot = net_.sender(0, 1).acquire(0, kLateBytes, after(10s));
    KERF_CHECK(slot, "no slot came free");
    if (slot->writable != nullptr) writer_->wait(*slot->writable);
    launch(
        *writer_,
        [seed](std::byte* data) {
          std::this_thread::sleep_for(5ms);
          for (size_t i = 0; i < kLateBytes; ++i) data[i] = pattern(seed, i);
        },
        memory(slot->data, kLateBytes));
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
          for (size_t i = 0; i < kLateBytes; ++i) wrong += data[i] == pattern(seed, i) ? 0 : 1;
          wrong_ += wrong;
          ++read_;
        },
        memory(at, kLateBytes));
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

  const std::unique_ptr<LateDevices> devices_ = make_late_devices();
  Net net_;
  const std::unique_ptr<Stream> writer_ = net_.device(0).make_stream();
  const std::unique_ptr<Stream> reader_ = net_.device(1).make_stream();
  std::atomic<size_t> wrong_{0};
  std::atomic<int> read_{0};
};

}  // namespace kerf::runtime
