// Connections of pairs that have a secret: what is on them, and what is not taken from them.
#include "runtime/sockets/connection_opening.h"
#include "tests/runtime/stream_socket_fixture.h"

namespace kerf::runtime {
namespace {

const std::string kPair(kSecretBytes, 'p');

// What worker 0 says to worker 1 on its connection of this number.
class Spoken {
 public:
  explicit Spoken(ConnectionOpening opening)
      : encryption_(opening.secret(kPair)), text_(opening.bytes()) {}
  explicit Spoken(uint64_t number)
      : Spoken(ConnectionOpening{.epoch = 1, .to = 1, .number = number}) {}

  Spoken& add(PacketHeader head, const std::string& body = {}, int32_t from = 0) {
    const std::string plain = on_the_wire(head, body, from);
    add_piece(std::string_view(plain).substr(0, sizeof head));
    if (!body.empty()) add_piece(body);
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  void add_piece(std::string_view plain) {
    const size_t before = text_.size();
    text_.resize(before + plain.size() + kTagBytes);
    encryption_.encrypt(reinterpret_cast<const std::byte*>(plain.data()), plain.size(),
                        reinterpret_cast<std::byte*>(text_.data() + before));
  }

  Encryption encryption_;
  std::string text_;
};

class EncryptedConnection : public testing::Test {
 protected:
  EncryptedConnection() { b_.socket->connect(0, "tcp://127.0.0.1:1", kPair); }

  void expect_probe(uint64_t sequence) {
    const auto packet = b_.receive();
    ASSERT_TRUE(packet);
    EXPECT_EQ(packet->head.kind, PacketKind::kProbe);
    EXPECT_EQ(packet->head.sequence, sequence);
  }
  void expect_refused(const std::string& text) {
    const int64_t before = b_.socket->dropped();
    RawConnection raw(*b_.socket);
    raw.write(text);
    EXPECT_TRUE(raw.is_closed_by(b_));
    EXPECT_EQ(b_.socket->dropped(), before + 1);
  }
  std::string room(uint64_t sequence) const {
    const auto& bytes = b_.rooms.room(sequence);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  SocketOfWorker b_{1, "tcp"};
  const std::string body_ = std::string(5'000, 'b') + "the end of a chunk";
};

TEST_F(EncryptedConnection, IsReadInWhateverPiecesItComes) {
  uint64_t number = 0;
  for (const size_t piece : {size_t{1}, size_t{15}, size_t{31}, size_t{113}, size_t{100'000}}) {
    Spoken spoken(++number);
    spoken.add(probe_head(5)).add(data_head(1, body_.size()), body_).add(probe_head(6));
    b_.rooms.make(1, body_.size());
    RawConnection raw(*b_.socket);
    std::vector<uint64_t> sequences;
    for (size_t at = 0; at < spoken.text().size(); at += piece) {
      raw.write(std::string_view(spoken.text()).substr(at, piece));
      while (const auto packet = b_.look()) {
        EXPECT_FALSE(packet->is_damaged);
        sequences.push_back(packet->head.sequence);
      }
    }
    while (sequences.size() < 3) {
      const auto packet = b_.receive();
      ASSERT_TRUE(packet);
      sequences.push_back(packet->head.sequence);
    }
    EXPECT_THAT(sequences, testing::ElementsAre(5, 1, 6)) << piece << " bytes at a time";
    EXPECT_EQ(room(1), body_);
  }
  EXPECT_EQ(b_.socket->dropped(), 0);
}

TEST_F(EncryptedConnection, GoesOnBehindPayloadThatNobodyWants) {
  Spoken spoken(1);
  spoken.add(data_head(9, 100'000), std::string(100'000, 'x')).add(probe_head(4));
  RawConnection raw(*b_.socket);
  raw.write(spoken.text());
  expect_probe(4);
}

TEST_F(EncryptedConnection, GoesOnBehindAChunkThatSomebodyChanged) {
  Spoken spoken(1);
  spoken.add(data_head(1, body_.size()), body_).add(probe_head(4));
  b_.rooms.make(1, body_.size());
  std::string text = spoken.text();
  text[sizeof(ConnectionOpening) + sizeof(PacketHeader) + kTagBytes + 77] ^= 1;
  RawConnection raw(*b_.socket);
  raw.write(text);
  const auto packet = b_.receive();
  ASSERT_TRUE(packet);
  EXPECT_TRUE(packet->is_damaged);
  EXPECT_EQ(packet->head.sequence, 1U);
  expect_probe(4);
}

// Of its opening, its first header, and of the body of what is no chunk.
TEST_F(EncryptedConnection, EndsWhereAnythingElseIsChanged) {
  PacketHeader state = probe_head(3);
  state.kind = PacketKind::kState;
  for (size_t at = 0; at < Spoken(1).add(state, std::string(16, 's')).text().size(); ++at) {
    std::string text = Spoken(at + 1).add(state, std::string(16, 's')).text();
    text[at] = static_cast<char>(text[at] ^ (1 << at % 8));
    expect_refused(text);
  }
  EXPECT_EQ(b_.rooms.asked, 0);
}

TEST_F(EncryptedConnection, IsTakenOnceAndNotAfterALaterOne) {
  const std::string first = Spoken(1).add(probe_head(1)).text();
  const std::string third = Spoken(3).add(probe_head(3)).text();
  RawConnection raw(*b_.socket);
  raw.write(first);
  expect_probe(1);
  expect_refused(first);
  RawConnection later(*b_.socket);
  later.write(third);
  expect_probe(3);
  EXPECT_TRUE(raw.is_closed_by(b_)) << "the one before is left";
  expect_refused(third);
  expect_refused(first);
  expect_refused(Spoken(2).add(probe_head(2)).text());
}

// It was begun before, and speaks afterwards.
TEST_F(EncryptedConnection, IsNotTakenTwiceWhereBothBeginAtOnce) {
  const std::string text = Spoken(1).add(probe_head(1)).text();
  RawConnection one(*b_.socket);
  RawConnection other(*b_.socket);
  const size_t beginning = sizeof(ConnectionOpening) + sizeof(PacketHeader);
  other.write(text.substr(0, beginning));
  EXPECT_FALSE(b_.receive(after(20ms)));
  one.write(text);
  expect_probe(1);
  other.write(text.substr(beginning));
  EXPECT_TRUE(other.is_closed_by(b_));
  EXPECT_EQ(b_.socket->dropped(), 1);
}

TEST_F(EncryptedConnection, OfAnotherPairOrEpochIsRefused) {
  const auto refused = [&](auto change) {
    ConnectionOpening opening{.epoch = 1, .to = 1, .number = 1};
    change(opening);
    expect_refused(Spoken(opening).add(probe_head(1)).text());
  };
  refused([](ConnectionOpening& opening) { opening.epoch = 2; });
  refused([](ConnectionOpening& opening) { opening.from = 1; });
  refused([](ConnectionOpening& opening) { opening.from = 7; });
  refused([](ConnectionOpening& opening) { opening.to = 0; });
  refused([](ConnectionOpening& opening) { opening.number = 0; });
  refused([](ConnectionOpening& opening) { opening.version = 2; });
  b_.socket->expect(2);
  expect_refused(Spoken(1).add(probe_head(1), {}, 2).text());  // in the name of another
}

TEST_F(EncryptedConnection, InPlainIsRefused) {
  expect_refused(on_the_wire(probe_head(1)));
  b_.socket->expect(2);
  RawConnection raw(*b_.socket);
  raw.write(on_the_wire(probe_head(2), {}, 2));
  expect_probe(2);  // of whom has none
}

TEST_F(EncryptedConnection, OfWhomHasNoSecretIsRefused) {
  SocketOfWorker other(1, "tcp");
  other.socket->connect(0, "tcp://127.0.0.1:1");
  RawConnection raw(*other.socket);
  raw.write(Spoken(1).add(probe_head(1)).text());
  EXPECT_TRUE(raw.is_closed_by(other));
  EXPECT_EQ(other.socket->dropped(), 1);
}

// Listens where worker 1 would.
class Listener {
 public:
  Listener() : socket_(listen_tcp("127.0.0.1", address_)) {}
  const std::string& address() const { return address_; }
  // The first bytes of the next connection, which `sender` makes and then has cut.
  std::string take(SocketOfWorker& sender, size_t bytes) {
    std::optional<OpenFile> connection;
    std::string text;
    for (const Deadline end = after(10s); text.size() < bytes && Clock::now() < end;) {
      EXPECT_FALSE(sender.receive(after(1ms))) << "but it sends";
      if (!connection) connection = accept_connection(socket_);
      std::string more(bytes - text.size(), '\0');
      const ssize_t count =
          connection ? ::recv(connection->number(), more.data(), more.size(), 0) : 0;
      if (count > 0) text += more.substr(0, static_cast<size_t>(count));
    }
    return text;
  }

 private:
  std::string address_;
  const OpenFile socket_;
};

TEST(EncryptedSender, SaysWhatItsPeerReadsAndEachTimeByAnotherSecret) {
  Listener listener;
  SocketOfWorker a(0, "tcp");
  a.socket->connect(1, listener.address(), kPair);
  const auto payload = pattern_of(1, 3 * kMiB / 4);
  const std::string plain(reinterpret_cast<const char*>(payload.data()), payload.size());
  a.socket->send_pinned(1, data_head(7, payload.size()), payload.data(), payload.size());
  const std::string expected = Spoken(1).add(data_head(7, plain.size()), plain).text();
  const std::string text = listener.take(a, expected.size());
  EXPECT_TRUE(text == expected);
  EXPECT_FALSE(a.receive(after(200ms)));  // in which it notices that it was cut off
  a.socket->send(1, probe_head(8));
  const std::string again = Spoken(2).add(probe_head(8)).text();
  EXPECT_TRUE(listener.take(a, again.size()) == again);
  for (size_t at = 0; at + 64 <= plain.size(); at += 4096)
    EXPECT_EQ(text.find(plain.substr(at, 8)), std::string::npos);
  EXPECT_EQ(text.find(std::string(reinterpret_cast<const char*>(&kTestToken), 8)),
            std::string::npos);
}

}  // namespace
}  // namespace kerf::runtime
