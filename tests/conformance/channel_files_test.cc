// What a channel within a host makes of files that come with packets: it takes one of a peer's
// hello, if it is what that says, and closes all others.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <string>
#include <vector>

#include "runtime/wire.h"
#include "tests/conformance/besieged_channel.h"
#include "tests/support/errors.h"

namespace kerf::runtime {
namespace {

using testing::HasSubstr;

std::ptrdiff_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

// Whoever has a connection that ends closes it when he looks.
void expect_open_files(std::ptrdiff_t count) {
  for (const Deadline end = after(5s); open_files() != count && Clock::now() < end;)
    std::this_thread::sleep_for(1ms);
  EXPECT_EQ(open_files(), count);
}

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

OpenFile memory_with(int seals, size_t bytes = 4096) {
  OpenFile file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  KERF_CHECK(::ftruncate(file.number(), static_cast<off_t>(bytes)) == 0);
  KERF_CHECK(::fcntl(file.number(), F_ADD_SEALS, seals) == 0);
  return file;
}

class BesiegedByFiles : public Besieged {
 protected:
  const OpenFile file_ = memory_with(kSeals);
  const std::ptrdiff_t before_ = open_files();
};

TEST_P(BesiegedByFiles, ClosesThoseOfStrangers) {
  for (const size_t count : {1, 2, 100})
    intruder_.send_garbage({"garbage"}, Intruder::Files(count, file_.number()));
  expect_strangers(3);
  expect_it_works();
  expect_open_files(before_);
}

TEST_P(BesiegedByFiles, EndsAConnectionThatBringsTwoAtOnce) {
  for (int64_t i = 1; i <= 3; ++i) {
    Intruder peer(net_[1].address());
    peer.send(from_worker_0(PacketKind::kProbe, 0), {}, {file_.number(), file_.number()});
    expect_strangers(i);
  }
  expect_it_works();
  expect_open_files(before_);
}

TEST_P(BesiegedByFiles, EndsAConnectionThatBringsThoseOfNoPacket) {
  for (int i = 0; i < 3; ++i)
    intruder_.send(from_worker_0(PacketKind::kProbe, 0), {}, {file_.number()});
  expect_strangers(1);
  expect_it_works();
  expect_open_files(before_ + 1);  // the intruder's end of its connection
}

TEST_P(BesiegedByFiles, ClosesThoseOfAHelloThatComesAgain) {
  PacketHeader head = from_worker_0(PacketKind::kHello, 0);
  head.flags = kWithFile;
  for (int i = 0; i < 10; ++i) intruder_.send(head, encode(Hello{}), {file_.number()});
  EXPECT_FALSE(net_.receiver(0, 1).receive(after(50ms)));
  expect_it_works();
  expect_open_files(before_ + 1);  // the intruder's end of its connection
  EXPECT_EQ(net_[1].dropped(), 0);
}

INSTANTIATE_TEST_SUITE_P(Over, BesiegedByFiles,
                         testing::Values(TransportKind::kShm, TransportKind::kIpc), name_of_kind);

// What worker 1 throws that opens its channels to a worker 0 whose hello brings these.
Error thrown_behind(const Intruder::Files& files) {
  Net net(TransportKind::kShm, 2);
  Intruder peer(net[1].address());
  Hello hello;
  hello.transport = TransportKind::kShm;
  hello.send = hello.receive = one_lane(64, 2);
  PacketHeader head = from_worker_0(PacketKind::kHello, 0);
  if (!files.empty()) head.flags = kWithFile;
  peer.send(head, encode(hello), files);
  const auto error =
      tests::error_of([&] { net[1].open(net.wiring(1, one_lane(64, 2)), after(500ms)); });
  return error.value_or(Error(ErrorCode::kInternal, "nothing was thrown"));
}

TEST(SharedMemoryOffer, IsRefusedNamingThePeerUnlessItsFileIsMemoryThatCannotShrink) {
  const std::ptrdiff_t before = open_files();
  {
    const OpenFile unsealed = memory_with(0);
    const OpenFile small = memory_with(kSeals, 64);
    const OpenFile none(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    for (const auto& [files, why] : std::vector<std::pair<Intruder::Files, std::string>>{
             {{}, "without its file"},
             {{unsealed.number()}, "not sealed"},
             {{small.number()}, "too small"},
             {{none.number()}, "not shared memory"}}) {
      const Error error = thrown_behind(files);
      EXPECT_THAT(error.message(), testing::AllOf(HasSubstr("slots of worker 0"), HasSubstr(why)));
    }
    EXPECT_EQ(thrown_behind({unsealed.number(), small.number()}).code(), ErrorCode::kTimeout)
        << "it said nothing that counts";
  }
  EXPECT_EQ(open_files(), before);
}

TEST(SharedMemoryOffer, IsTakenIfItsFileIsSealedAndLargeEnough) {
  const OpenFile sealed = memory_with(kSeals);
  EXPECT_EQ(thrown_behind({sealed.number()}).code(), ErrorCode::kTimeout)
      << "nobody took those of worker 1";
}

}  // namespace
}  // namespace kerf::runtime
