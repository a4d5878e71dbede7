#include "tests/conformance/intruder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <optional>
#include <utility>
#include <zmq.hpp>

#include "runtime/format.h"
#include "runtime/tcp/tcp_socket.h"

namespace kerf::runtime {
namespace {

class ZmqIntruder final : public Intruder {
 public:
  explicit ZmqIntruder(const std::string& address) : socket_(context_, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::linger, 200);
    socket_.connect(address);
  }
  void send(const std::vector<std::string>& frames) override {
    for (size_t i = 0; i < frames.size(); ++i)
      socket_.send(zmq::buffer(frames[i]),
                   i + 1 < frames.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }
  void send_garbage(const std::vector<std::string>& frames) override { send(frames); }
  size_t send_endlessly() override {
    const std::string address = socket_.get(zmq::sockopt::last_endpoint);
    zmq::socket_t stranger(context_, zmq::socket_type::dealer);
    stranger.set(zmq::sockopt::linger, 0);
    stranger.set(zmq::sockopt::sndhwm, 1);
    stranger.set(zmq::sockopt::sndtimeo, 300);
    stranger.connect(address);
    const std::string much(64 << 10, 'x');
    size_t sent = 0;
    while (sent < kEndless && stranger.send(zmq::buffer(much))) sent += much.size();
    return sent;
  }

 private:
  zmq::context_t context_;
  zmq::socket_t socket_;
};

// What is sent on it after it was closed is lost, as an intruder's words may be.
class TcpIntruder final : public Intruder {
 public:
  explicit TcpIntruder(std::string address) : address_(std::move(address)) {}
  void send(const std::vector<std::string>& frames) override {
    if (!connection_) connection_ = connect();
    write(*connection_, frames);
  }
  void send_garbage(const std::vector<std::string>& frames) override { write(connect(), frames); }
  size_t send_endlessly() override {
    const OpenFile stranger = connect();
    const timeval patience{0, 300'000};
    ::setsockopt(stranger.number(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    const std::string much(64 << 10, 'x');
    size_t sent = 0;
    while (sent < kEndless) {
      const ssize_t count = ::send(stranger.number(), much.data(), much.size(), MSG_NOSIGNAL);
      if (count <= 0) break;
      sent += static_cast<size_t>(count);
    }
    return sent;
  }

 private:
  OpenFile connect() const {
    OpenFile made = begin_connect_tcp(parse_tcp_address(address_));
    pollfd item{made.number(), POLLOUT, 0};
    EXPECT_EQ(::poll(&item, 1, 10'000), 1);
    EXPECT_TRUE(is_connected(made));
    ::fcntl(made.number(), F_SETFL, 0);  // from now on it blocks
    return made;
  }
  static void write(const OpenFile& connection, const std::vector<std::string>& frames) {
    const std::string bytes = kerf::format("{}", fmt::join(frames, ""));
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t count =
          ::send(connection.number(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
      if (count <= 0) return;
      done += static_cast<size_t>(count);
    }
  }

  const std::string address_;
  std::optional<OpenFile> connection_;
};

}  // namespace

std::unique_ptr<Intruder> make_intruder(TransportKind kind, const std::string& address) {
  if (kind == TransportKind::kTcp) return std::make_unique<TcpIntruder>(address);
  return std::make_unique<ZmqIntruder>(address);
}

}  // namespace kerf::runtime
