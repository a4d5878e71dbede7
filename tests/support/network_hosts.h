// Hosts of their own on one machine: network namespaces, each with an address on a bridge that
// joins them, in a namespace of its own as well. They have no names, so nothing is left of them
// when the process ends, however it does.
//
// Needs root, a kernel with veth and bridge, and Debian's iproute2.
#pragma once

#include <string>
#include <vector>

#include "runtime/open_file.h"

namespace kerf::tests {

class NetworkHosts {
 public:
  // Throws std::runtime_error that says what this machine forbids or lacks.
  explicit NetworkHosts(int count);

  int count() const { return static_cast<int>(hosts_.size()); }
  static std::string address(int host) { return "10.73.0." + std::to_string(host + 1); }
  static std::string address6(int host) { return "[fd73::" + std::to_string(host + 1) + "]"; }
  // From now on the calling thread's sockets, and its children, are there.
  void enter(int host) const;

 private:
  runtime::OpenFile bridge_{-1};
  std::vector<runtime::OpenFile> hosts_;
};

}  // namespace kerf::tests
