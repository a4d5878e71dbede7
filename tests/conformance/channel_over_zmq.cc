// The channel suite over the transports that ZeroMQ carries.
#include "tests/conformance/channel_fixture.h"

namespace kerf::runtime {

const auto kOverZmq = testing::Values(TransportKind::kShm, TransportKind::kIpc);
INSTANTIATE_TEST_SUITE_P(Over, Channel, kOverZmq, name_of_kind);
INSTANTIATE_TEST_SUITE_P(Over, ChannelOfSize, testing::Combine(kOverZmq, kSizes), name_of_size);

}  // namespace kerf::runtime
