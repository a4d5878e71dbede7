// Sockets of TCP that never block, from and to addresses such as tcp://127.0.0.1:5555.
//
// Each throws Error{kUnavailable} that says what was tried, Error{kUsage} for what is no address.
#pragma once

#include <optional>
#include <string>

#include "runtime/open_file.h"

namespace kerf::runtime {

// Listens on a port that the system chooses; tells it in `address`.
OpenFile listen_tcp(const std::string& host, std::string& address);
// The next connection to `listener`, if one is there.
std::optional<OpenFile> accept_tcp(const OpenFile& listener);
// Begins to connect: writable when that has ended.
OpenFile begin_connect_tcp(const std::string& address);
// Whether what began is connected; otherwise errno says why not.
bool is_connected(const OpenFile& socket);

}  // namespace kerf::runtime
