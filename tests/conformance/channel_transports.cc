// The channel suite over the transports between processes.
#include "tests/conformance/channel_fixture.h"

namespace kerf::runtime {

const auto kBetweenProcesses =
    testing::Values(TransportKind::kShm, TransportKind::kIpc, TransportKind::kTcp);
INSTANTIATE_TEST_SUITE_P(Over, Channel, kBetweenProcesses, name_of_kind);
INSTANTIATE_TEST_SUITE_P(Over, ChannelOfSize, testing::Combine(kBetweenProcesses, kSizes),
                         name_of_size);

}  // namespace kerf::runtime
