// How Kerf makes ZeroMQ sockets: one place for the settings that keep ZeroMQ from hanging, aborting
// or losing messages in silence, and for turning its errors into kerf::Error.
//
// ZMTP heartbeats stay off: with a finite receive high-water mark they abort the process
// (zeromq/libzmq#3937), and they do not notice an application that hangs. Bounds come from credits,
// so high-water marks are off as well. A context must be made after any child process was started.
//
// Threads: a socket belongs to one thread.
#pragma once

#include <chrono>
#include <string>
#include <zmq.hpp>

#include "runtime/error.h"
#include "runtime/time.h"

namespace kerf::runtime {

// A context with one I/O thread, which is enough for 5 GB/s and leaves the cores to arithmetic.
zmq::context_t make_zmq_context();

struct SocketSettings {
  std::string routing_id;  // of a DEALER: unique per incarnation; empty: ZeroMQ picks one
  int64_t max_frame_bytes = int64_t{1} << 20;  // a peer that sends more is disconnected
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

// Milliseconds for zmq_poll: until the deadline or `at_most`, whichever is sooner.
std::chrono::milliseconds poll_time(Deadline deadline, std::chrono::milliseconds at_most);

}  // namespace kerf::runtime
