// The channel suite over queues between threads: an executable of its own, for ThreadSanitizer.
#include "tests/conformance/channel_fixture.h"

namespace kerf::runtime {

const auto kInproc = testing::Values(TransportKind::kInproc);
INSTANTIATE_TEST_SUITE_P(Over, Channel, kInproc, name_of_kind);
INSTANTIATE_TEST_SUITE_P(Over, ChannelOfSize, testing::Combine(kInproc, kSizes), name_of_size);

}  // namespace kerf::runtime
