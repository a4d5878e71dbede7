// The suite of channel_stream_test.cc on the test device, and what takes a device that is late
// without being asked.
#include "tests/conformance/late_channel.h"
#include "tests/support/async_device.h"

namespace kerf::runtime {
namespace {

class AsyncDevices final : public LateDevices {
 public:
  std::shared_ptr<Device> make() override { return tests::make_async_device(world_); }
  std::vector<std::string> complaints() override { return world_->reports(); }

 private:
  const std::shared_ptr<tests::AsyncWorld> world_ = std::make_shared<tests::AsyncWorld>(1);
};

}  // namespace

std::unique_ptr<LateDevices> make_late_devices() { return std::make_unique<AsyncDevices>(); }

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

INSTANTIATE_TEST_SUITE_P(Over, LateChannel,
                         testing::Values(TransportKind::kInproc, TransportKind::kShm,
                                         TransportKind::kIpc, TransportKind::kTcp),
                         name_of_kind);

}  // namespace kerf::runtime
