// The suite of channel_stream_test.cc on a GPU that the host plays.
#include "tests/conformance/late_channel.h"
#include "tests/support/cuda_on_host/gpu.h"

namespace kerf::runtime {
namespace {

class PlayedGpus final : public LateDevices {
 public:
  std::shared_ptr<Device> make() override { return make_cuda_device(0); }
  // A slot that is pageable would make copies wait, and be none of a kernel's.
  std::vector<std::string> complaints() override {
    const int64_t copies = tests::gpu_counts().pageable_copies - before_;
    if (copies == 0) return {};
    return {kerf::format("{} copies of memory that is pageable", copies)};
  }

 private:
  const int64_t before_ = tests::gpu_counts().pageable_copies;
};

}  // namespace

std::unique_ptr<LateDevices> make_late_devices() { return std::make_unique<PlayedGpus>(); }

INSTANTIATE_TEST_SUITE_P(Over, LateChannel,
                         testing::Values(TransportKind::kInproc, TransportKind::kShm,
                                         TransportKind::kIpc, TransportKind::kTcp),
                         name_of_kind);

}  // namespace kerf::runtime
