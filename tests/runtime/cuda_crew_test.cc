// Crews whose workers compute on GPUs that the host plays: what each pair's messages go over, and
// that they arrive.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/crew_of_words.h"

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;
using tests::all_channels;

// Worker i is on device i.
class CudaCrew : public testing::Test {
 protected:
  std::unique_ptr<Crew> start(const std::vector<std::string>& devices) {
    auto options = tests::crew_options(TransportKind::kShm, static_cast<int>(devices.size()),
                                       KERF_TEST_CUDA_WORKER);
    options.transport = {};
    options.devices = devices;
    return tests::start_crew(options, true);
  }
  // Each to each other, twice.
  static void expect_carries(Crew& crew) {
    const auto workers = static_cast<int>(crew.workers().size());
    for (int i = 0; i < 2 * workers * workers; ++i) {
      const int from = i % workers;
      const int to = i / workers % workers;
      if (from == to) continue;
      crew.send(to, {kerf::format("receive {}", from)});
      crew.send(from, {kerf::format("send {} message {}", to, i)});
      EXPECT_THAT(tests::take(crew, 2),
                  testing::UnorderedElementsAre("sent", kerf::format("message {}", i)));
    }
  }
};

TEST_F(CudaCrew, OnOneGpuExchangesMessagesInIt) {
  const auto crew = start({"cuda:0", "cuda:0"});
  EXPECT_EQ(crew->transport_between(0, 1), TransportKind::kCuda);
  expect_carries(*crew);
  crew->stop();
}

TEST_F(CudaCrew, OnSeveralDevicesHasForEachPairWhatItCanHave) {
  const auto crew = start({"cuda:0", "cuda:0", "cuda:1", "cpu"});
  EXPECT_EQ(crew->transport_between(0, 1), TransportKind::kCuda);
  for (const int other : {2, 3}) EXPECT_EQ(crew->transport_between(0, other), TransportKind::kShm);
  EXPECT_EQ(crew->transport_between(2, 3), TransportKind::kShm);
  expect_carries(*crew);
  crew->stop();
}

}  // namespace
}  // namespace kerf::runtime
