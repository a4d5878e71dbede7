// The channel suite over every transport of hosts.
#include "tests/conformance/channel_fixture.h"

namespace kerf::runtime {

const auto kAll = testing::Values(TransportKind::kInproc, TransportKind::kShm, TransportKind::kIpc,
                                  TransportKind::kTcp);
INSTANTIATE_TEST_SUITE_P(Over, Channel, kAll, name_of_kind);
INSTANTIATE_TEST_SUITE_P(Over, ChannelOfSize, testing::Combine(kAll, kSizes), name_of_size);

}  // namespace kerf::runtime
