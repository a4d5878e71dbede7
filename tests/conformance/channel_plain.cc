// The channel suite between threads and over plain TCP: an executable of its own, for
// ThreadSanitizer, which cannot follow ZeroMQ.
#include "tests/conformance/channel_fixture.h"

namespace kerf::runtime {

const auto kPlain = testing::Values(TransportKind::kInproc, TransportKind::kTcp);
INSTANTIATE_TEST_SUITE_P(Over, Channel, kPlain, name_of_kind);
INSTANTIATE_TEST_SUITE_P(Over, ChannelOfSize, testing::Combine(kPlain, kSizes), name_of_size);

}  // namespace kerf::runtime
