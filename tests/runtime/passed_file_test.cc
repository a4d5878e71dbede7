// Files that go with packets over connections within a host.
#include "runtime/sockets/passed_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/runtime/stream_socket_fixture.h"

namespace kerf::runtime {
namespace {

PacketHeader hello_head() {
  PacketHeader head;
  head.kind = PacketKind::kHello;
  return head;
}

std::shared_ptr<const OpenFile> make_file() {
  return std::make_shared<OpenFile>(::memfd_create("test", MFD_CLOEXEC));
}

// Which file it is, by whatever descriptor.
ino_t file_of(const std::shared_ptr<const OpenFile>& file) {
  struct stat status {};
  EXPECT_TRUE(file && ::fstat(file->number(), &status) == 0);
  return status.st_ino;
}

class PassedFiles : public StreamSocket {};

TEST_P(PassedFiles, AreOpenWhereTheirPacketCame) {
  const auto sent = make_file();
  a_.socket->send(1, hello_head(), "a body", sent);
  a_.send_all();
  const auto packet = b_.receive();
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->body, "a body");
  EXPECT_EQ(file_of(packet->file), file_of(sent));
  EXPECT_NE(packet->file->number(), sent->number());
  EXPECT_EQ(::fcntl(packet->file->number(), F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(sent.use_count(), 1) << "nobody sends it any more";
}

// All of that lies there before somebody reads.
TEST_P(PassedFiles, AreThoseOfTheirPacketAmongOthers) {
  const auto first = make_file();
  const auto second = make_file();
  a_.socket->send(1, probe_head(1));
  a_.socket->send(1, hello_head(), "first", first);
  a_.socket->send(1, probe_head(2));
  a_.socket->send(1, hello_head(), "none");
  a_.socket->send(1, hello_head(), "second", second);
  a_.socket->send(1, probe_head(3));
  a_.send_all();
  std::vector<Packet> hellos;
  for (int i = 0; i < 6; ++i) {
    const auto packet = b_.receive();
    ASSERT_TRUE(packet) << i;
    if (packet->head.kind == PacketKind::kHello) {
      hellos.push_back(*packet);
    } else {
      EXPECT_FALSE(packet->file);
    }
  }
  ASSERT_EQ(hellos.size(), 3U);
  EXPECT_EQ(file_of(hellos[0].file), file_of(first));
  EXPECT_FALSE(hellos[1].file);
  EXPECT_EQ(file_of(hellos[2].file), file_of(second));
}

TEST_P(PassedFiles, WaitWithTheirPacketForOneThatTheConnectionTakesInPieces) {
  const auto payload = pattern_of(5, kMiB);
  for (uint64_t i = 0; i < 4; ++i) {
    b_.rooms.make(i, payload.size());
    a_.socket->send_pinned(1, data_head(i, payload.size()), payload.data(), payload.size());
  }
  const auto sent = make_file();
  a_.socket->send(1, hello_head(), {}, sent);
  a_.socket->send(1, hello_head(), {}, sent);
  std::vector<std::shared_ptr<const OpenFile>> came;
  for (const Deadline end = after(10s); came.size() < 6 && Clock::now() < end;) {
    EXPECT_FALSE(a_.look());
    while (const auto packet = b_.receive(after(1ms))) came.push_back(packet->file);
  }
  ASSERT_EQ(came.size(), 6U);
  for (size_t i = 0; i < 4; ++i) EXPECT_FALSE(came[i]);
  for (size_t i = 4; i < 6; ++i) EXPECT_EQ(file_of(came[i]), file_of(sent));
}

// Over the connection that replaces one.
TEST_P(PassedFiles, AreSentAgainWithTheirPacket) {
  SocketOfWorker late(2, GetParam());
  late.socket->expect(0);
  a_.socket->connect(2, late.socket->address());
  const auto sent = make_file();
  for (int i = 0; i < 8; ++i) a_.socket->send(2, hello_head(), std::string(kMiB, 'x'), sent);
  a_.socket->send(2, hello_head(), "the last", sent);
  EXPECT_FALSE(a_.receive(after(50ms)));
  ASSERT_TRUE(a_.socket->has_unsent()) << "more than the connection holds";
  RawConnection thief(*late.socket);  // takes the place of a's connection
  thief.write(on_the_wire(probe_head(2)));
  int came = 0;
  for (const Deadline end = after(10s); Clock::now() < end;) {
    EXPECT_FALSE(a_.look());
    const auto packet = late.receive(after(1ms));
    if (!packet || packet->head.kind != PacketKind::kHello) continue;
    ++came;
    EXPECT_EQ(file_of(packet->file), file_of(sent));
    if (packet->body == "the last") break;
  }
  EXPECT_GT(came, 1);
}

TEST_P(PassedFiles, AreLostWhereNoMoreCanBeOpenedAndTheirPacketIsNot) {
  a_.socket->send(1, probe_head(1));
  a_.send_all();
  ASSERT_TRUE(b_.receive());
  a_.socket->send(1, hello_head(), "a body", make_file());
  a_.socket->send(1, probe_head(2));
  a_.send_all();
  {
    const FewFiles few;
    const auto packet = b_.receive();
    ASSERT_TRUE(packet);
    EXPECT_EQ(packet->body, "a body");
    EXPECT_FALSE(packet->file);
  }
  EXPECT_TRUE(b_.receive());
}

INSTANTIATE_TEST_SUITE_P(Over, PassedFiles, testing::Values("ipc"), name_of_scheme);

}  // namespace
}  // namespace kerf::runtime
