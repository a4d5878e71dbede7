// How Kerf makes ZeroMQ sockets: one place for the settings that keep ZeroMQ from hanging, aborting
// or losing messages in silence, and for turning its errors into kerf::Error.
//
// ZMTP heartbeats stay off: with a finite receive high-water mark they abort the process
// (zeromq/libzmq#3937), and they do not notice an application that hangs. What we send is bounded
// by credits, so sending has no high-water mark. What a ROUTER receives is bounded per connection,
// because anybody may connect; beyond it the connection is not read, and nothing is lost. ZeroMQ
// counts messages: one of endless parts, or a thousand connections, may still fill the memory. On
// ipc only processes of the same user get in, and keys keep strangers' messages out, so that is
// left to strangers over loopback tcp without keys. Connections are bounded by nothing but the
// limit of open files: whoever reaches a tcp address can take all of them, with keys or without. A
// context must be made after any child process was started.
//
// Threads: a socket belongs to one thread.
#pragma once

#include <cerrno>
#include <chrono>
#include <string>
#include <string_view>
#include <zmq.hpp>

#include "runtime/error.h"
#include "runtime/time.h"

namespace kerf::runtime {

// A context with one I/O thread, which is enough for 5 GB/s and leaves the cores to arithmetic.
zmq::context_t make_zmq_context();

struct SocketSettings {
  std::string routing_id;  // of a DEALER: unique per incarnation; empty: ZeroMQ picks one
  int64_t max_frame_bytes = int64_t{1} << 20;  // a peer that sends more is disconnected
  int receive_queue = 0;                       // messages of one connection; 0: any number
  std::chrono::milliseconds linger{500};       // how long closing may wait for unsent messages
};
zmq::socket_t make_socket(zmq::context_t& context, zmq::socket_type type,
                          const SocketSettings& settings);

// Returns the address that peers connect to, with the port that was bound. Throws
// Error{kUnavailable} that names the address if it is in use, Error{kUsage} if it is malformed.
std::string bind_socket(zmq::socket_t& socket, const std::string& address);
// Connects in the background. Throws Error{kUsage} for a malformed address.
void connect_socket(zmq::socket_t& socket, const std::string& address);

// What a failed call of ZeroMQ means, `what` being what was tried.
Error to_error(const zmq::error_t& error, const std::string& what);

// What a call of ZeroMQ's C interface returns when no signal interrupts it, which may happen to
// any, even one that does not block. Negative: failed, as zmq_errno() tells.
template <class Call>
int uninterrupted(const Call& call) {
  while (true)
    if (const int result = call(); result >= 0 || zmq_errno() != EINTR) return result;
}

// False if it cannot be sent now, as zmq_errno() tells.
bool send_now(zmq::socket_t& socket, std::string_view bytes, int flags = 0);
// False if there is no message.
bool receive_now(zmq::socket_t& socket, zmq::message_t& message);

}  // namespace kerf::runtime
