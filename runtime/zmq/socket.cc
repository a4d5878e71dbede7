#include "runtime/zmq/socket.h"

#include <unistd.h>

#include "runtime/host_address.h"

namespace kerf::runtime {
namespace {

constexpr int kHandshakeMs = 2'000;
constexpr int kReconnectMs = 100;
constexpr int kReconnectMostMs = 1'000;
constexpr int kGiveUpMs = 10'000;  // on a connection that acknowledges nothing

void set_liveness(zmq::socket_t& socket) {
  socket.set(zmq::sockopt::handshake_ivl, kHandshakeMs);
  socket.set(zmq::sockopt::reconnect_ivl, kReconnectMs);
  socket.set(zmq::sockopt::reconnect_ivl_max, kReconnectMostMs);
  socket.set(zmq::sockopt::tcp_maxrt, kGiveUpMs);
  socket.set(zmq::sockopt::tcp_keepalive, 1);
  socket.set(zmq::sockopt::tcp_keepalive_idle, 5);
  socket.set(zmq::sockopt::tcp_keepalive_intvl, 1);
  socket.set(zmq::sockopt::tcp_keepalive_cnt, 5);
}

// Anybody of this host may connect to what we bind; a peer that reconnects replaces its connection.
void guard_router(zmq::socket_t& socket, int receive_queue) {
  socket.set(zmq::sockopt::rcvhwm, receive_queue);
  socket.set(zmq::sockopt::router_mandatory, true);
  // Otherwise a peer that is back before we noticed its going is taken for an impostor, for good.
  socket.set(zmq::sockopt::router_handover, true);
  // Fails, and changes nothing, where ZeroMQ was built without it.
  const uid_t we = ::geteuid();
  zmq_setsockopt(socket.handle(), ZMQ_IPC_FILTER_UID, &we, sizeof we);
}

// Only where asked for: with IPv6 on, 127.0.0.1 would be told to peers as [::ffff:127.0.0.1].
void choose_family(zmq::socket_t& socket, const std::string& address) {
  socket.set(zmq::sockopt::ipv6, address.starts_with("tcp://["));
}

}  // namespace

zmq::context_t make_zmq_context() {
  try {
    return zmq::context_t(1);
  } catch (const zmq::error_t& error) {
    throw to_error(error, "making a ZeroMQ context");
  }
}

zmq::socket_t make_socket(zmq::context_t& context, zmq::socket_type type,
                          const SocketSettings& settings) {
  try {
    zmq::socket_t socket(context, type);
    socket.set(zmq::sockopt::linger, static_cast<int>(settings.linger.count()));
    socket.set(zmq::sockopt::sndhwm, 0);
    socket.set(zmq::sockopt::rcvhwm, 0);
    socket.set(zmq::sockopt::maxmsgsize, settings.max_frame_bytes);
    set_liveness(socket);
    if (type == zmq::socket_type::router) guard_router(socket, settings.receive_queue);
    if (!settings.routing_id.empty()) socket.set(zmq::sockopt::routing_id, settings.routing_id);
    return socket;
  } catch (const zmq::error_t& error) {
    throw to_error(error, "making a ZeroMQ socket");
  }
}

std::string bind_socket(zmq::socket_t& socket, const std::string& address) {
  try {
    choose_family(socket, address);
    socket.bind(address);
    return socket.get(zmq::sockopt::last_endpoint);
  } catch (const zmq::error_t& error) {
    // ZeroMQ says the same of a name that it does not find.
    const auto parts = split_tcp(address);
    if (parts && (error.num() == ENODEV || error.num() == EADDRNOTAVAIL))
      (void)number_of_host(parts->host);
    throw to_error(error, kerf::format("listening on {}", address));
  }
}

void connect_socket(zmq::socket_t& socket, const std::string& address) {
  try {
    choose_family(socket, address);
    socket.connect(address);
  } catch (const zmq::error_t& error) {
    throw to_error(error, kerf::format("connecting to {}", address));
  }
}

Error to_error(const zmq::error_t& error, const std::string& what) {
  switch (error.num()) {
    case EADDRINUSE:
      return {ErrorCode::kUnavailable,
              kerf::format("{}: the address is in use; choose another or end its owner", what)};
    case EINVAL:
    case EPROTONOSUPPORT:
    case ENOCOMPATPROTO:
      return {ErrorCode::kUsage,
              kerf::format("{}: not an address such as tcp://127.0.0.1:5555 or ipc://@name", what)};
    case ENODEV:
    case EADDRNOTAVAIL:
      return {
          ErrorCode::kUnavailable,
          kerf::format("{}: this host has no such address; `ip address` lists what it has", what)};
    case EMFILE:
      return {ErrorCode::kUnavailable,
              kerf::format("{}: too many open files; raise the limit with ulimit -n", what)};
    default:
      return {ErrorCode::kUnavailable, kerf::format("{}: {}", what, error.what())};
  }
}

bool send_now(zmq::socket_t& socket, std::string_view bytes, int flags) {
  return uninterrupted([&] {
           return zmq_send(socket.handle(), bytes.data(), bytes.size(), flags | ZMQ_DONTWAIT);
         }) >= 0;
}

bool receive_now(zmq::socket_t& socket, zmq::message_t& message) {
  const auto receive = [&] {
    return zmq_msg_recv(message.handle(), socket.handle(), ZMQ_DONTWAIT);
  };
  if (uninterrupted(receive) >= 0) return true;
  if (zmq_errno() != EAGAIN) throw to_error(zmq::error_t(), "receiving");
  return false;
}

}  // namespace kerf::runtime
