// What a worker tells of where it is, and what follows for the channels of each pair.
//
// Plain values and pure functions, but for reach_of().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/channel.h"

namespace kerf::runtime {

// Told at registration.
struct Reach {
  // Equal for processes that open each other's files: same boot, user, group and namespaces of
  // users, networks and processes.
  std::string host = {};
  // device_identity() of its device; empty: its tensors are in the host's memory.
  std::string gpu = {};
  // Equal for processes that reach each other on loopback: same boot and network. Containers of one
  // host may share a network and nothing else.
  std::string network = {};
  // Equal for processes that reach each other by abstract sockets, and so pass each other memory:
  // as `host`, but the processes need not see each other. So do containers of one host and network.
  std::string sockets = {};

  template <class Archive>
  void serialize(Archive& archive) {
    archive(host, gpu, network, sockets);
  }
};

// Of a worker of this process. A device that is not there has no GPU: opening it says so. Throws
// Error{kUnavailable} where nothing tells this host from others.
Reach reach_of(const std::string& device);

// What the endpoint of a worker is made for, before anybody knows its peers: `wanted`, or where
// that is empty whatever the scheduler may choose for workers that it started itself (`local`), or
// that may be anywhere.
std::vector<TransportKind> endpoint_kinds(std::optional<TransportKind> wanted, bool local,
                                          const Reach& reach);

struct Neighbour {
  std::string name;  // "worker 1 (pid 4711)"
  const Reach& reach;
};

// How messages of two workers cross: as is `wanted`, or, where that is empty, the way with the
// fewest copies. Throws Error{kUnavailable} that names both where it is wanted and cannot be.
TransportKind transport_between(std::optional<TransportKind> wanted, const Neighbour& a,
                                const Neighbour& b);

// Throws Error{kUnavailable} that names both unless `from` may be sent to `address`, a word of the
// endpoint of `to`: on loopback it would find its own host there, and tell it the run's token.
void check_way(const Neighbour& from, const Neighbour& to, const std::string& address);

}  // namespace kerf::runtime
