// Memory of a peer is mapped only if it is what it is said to be.
#include "runtime/shm/shared_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "runtime/error.h"
#include "runtime/open_file.h"

namespace kerf::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr size_t kBytes = 10'000;

std::string thrown_by_mapping(const SlotOffer& offer, size_t bytes = kBytes) {
  try {
    map_shared_memory(bytes, offer);
  } catch (const Error& error) {
    return error.message();
  }
  return "nothing";
}

// What a peer would send with it.
SlotOffer offer_of(OpenFile file) { return {{}, std::make_shared<OpenFile>(std::move(file))}; }

OpenFile memory_with(int seals, size_t bytes = kBytes) {
  OpenFile file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  KERF_CHECK(::ftruncate(file.number(), static_cast<off_t>(bytes)) == 0);
  KERF_CHECK(::fcntl(file.number(), F_ADD_SEALS, seals) == 0);
  return file;
}

TEST(SharedMemory, IsMappedWithWhatItsOwnerWrote) {
  const auto mine = make_shared_memory(kBytes);
  mine->data()[kBytes - 1] = std::byte{7};
  const auto mapped = map_shared_memory(kBytes, mine->offer());
  EXPECT_EQ(mapped->data()[kBytes - 1], std::byte{7});
  mine->data()[0] = std::byte{8};
  EXPECT_EQ(mapped->data()[0], std::byte{8});
}

TEST(SharedMemory, IsMappedOnceItCannotShrink) {
  EXPECT_EQ(thrown_by_mapping(offer_of(memory_with(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))),
            "nothing");
  for (const int seals : {0, F_SEAL_GROW | F_SEAL_SEAL, F_SEAL_SHRINK | F_SEAL_GROW})
    EXPECT_THAT(thrown_by_mapping(offer_of(memory_with(seals))), HasSubstr("not sealed")) << seals;
}

TEST(SharedMemory, IsMappedIfItIsLargeEnough) {
  const auto mine = make_shared_memory(kBytes);
  EXPECT_EQ(thrown_by_mapping(mine->offer(), kBytes), "nothing");
  EXPECT_THAT(thrown_by_mapping(mine->offer(), kBytes + 1), HasSubstr("too small"));
}

TEST(SharedMemory, IsNoFileNorPipe) {
  EXPECT_THAT(thrown_by_mapping(offer_of(OpenFile(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)))),
              HasSubstr("not shared memory"));
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const OpenFile to(ends[1]);
  EXPECT_THAT(thrown_by_mapping(offer_of(OpenFile(ends[0]))), HasSubstr("not shared memory"));
  EXPECT_THAT(thrown_by_mapping({}), AllOf(HasSubstr("without its file"), HasSubstr("ulimit -n"),
                                           HasSubstr("--transport ipc")));
}

}  // namespace
}  // namespace kerf::runtime
