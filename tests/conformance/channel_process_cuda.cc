// The suite of channel_process_test.cc between processes on one GPU, which the host plays; CUDA
// says nothing of memory whose process is gone.
#include "tests/conformance/process_sender.h"
#include "tests/support/errors.h"

namespace kerf::runtime {
namespace {

using testing::HasSubstr;

const auto kHostMemory =
    testing::Values(Way{TransportKind::kShm, "cuda:0"}, Way{TransportKind::kIpc, "cuda:0"},
                    Way{TransportKind::kTcp, "cuda:0"}, Way{TransportKind::kShm, "cuda:0", true});
const auto kItsOwn = testing::Values(Way{TransportKind::kCuda, "cuda:0"});
INSTANTIATE_TEST_SUITE_P(Over, BetweenProcesses, kHostMemory, name_of_way);
INSTANTIATE_TEST_SUITE_P(OverItself, BetweenProcesses, kItsOwn, name_of_way);
INSTANTIATE_TEST_SUITE_P(Over, BehindAProcess, kHostMemory, name_of_way);

TEST(CudaChannel, IsRefusedWhereADeviceHasNoMemoryToShare) {
  Net net(TransportKind::kCuda, 2);
  const auto thrown = net.try_open([&](int self) { return net.wiring(self, one_lane(8, 1)); });
  EXPECT_THAT(thrown, testing::Each(testing::AllOf(HasSubstr("unavailable"), HasSubstr("cpu"),
                                                   HasSubstr("--transport shm"))));
}

TEST(CudaMemory, OfAPeerIsCheckedBeforeItIsUsed) {
  const auto device = make_device("cuda:0");
  const Buffer mine = device->allocate_exportable(1'000);
  EXPECT_EQ(mine.bytes(), kExportedBlock);
  const std::string handle = device->export_memory(mine);
  const auto import = [&](const std::string& from, size_t bytes) {
    return tests::error_of([&] { (void)device->import_memory(from, bytes); });
  };
  EXPECT_EQ(import("nonsense", 1)->code(), ErrorCode::kProtocol);
  EXPECT_EQ(import(handle, kExportedBlock + 1)->code(), ErrorCode::kUnavailable);
  EXPECT_EQ(import(std::string(handle.size(), 'x'), 1)->code(), ErrorCode::kUnavailable);
  EXPECT_EQ(import(handle, 1)->code(), ErrorCode::kUnavailable) << "one's own is not opened again";
  EXPECT_FALSE(device->import_memory("nonsense", 0));
  const Buffer shared = device->allocate(1'000);
  EXPECT_EQ(tests::error_of([&] { (void)device->export_memory(shared); })->code(),
            ErrorCode::kInternal);
}

}  // namespace
}  // namespace kerf::runtime
