// Sockets of TCP that never block, from and to addresses such as tcp://127.0.0.1:5555.
#pragma once

#include <sys/socket.h>

#include <optional>
#include <string>

#include "runtime/open_file.h"

namespace kerf::runtime {

struct TcpAddress {
  sockaddr_storage socket{};
  socklen_t length = 0;
};

// Throws Error{kUsage} for what is no address.
TcpAddress parse_tcp_address(const std::string& text);
// Listens on a port that the system chooses; tells it in `address`. Throws Error{kUnavailable} that
// says what was tried.
OpenFile listen_tcp(const std::string& host, std::string& address);
// The next connection to `listener`. Empty: errno says why.
std::optional<OpenFile> accept_tcp(const OpenFile& listener);
// Begins to connect: writable when that has ended. No file: errno says why.
OpenFile begin_connect_tcp(const TcpAddress& address);
// Whether what began is connected; otherwise errno says why not.
bool is_connected(const OpenFile& socket);
// Whether the system has too little left of something, which may be otherwise in a moment.
bool is_shortage(int error);

}  // namespace kerf::runtime
