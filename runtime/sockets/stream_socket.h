// Stream sockets that never block, from and to addresses such as tcp://127.0.0.1:5555 or, within a
// host, ipc://@name: an abstract Unix-domain socket, of which no file is left behind.
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/open_file.h"

namespace kerf::runtime {

// What an epoll is asked of what has something to read or take: it tells of that, or its end, once.
inline constexpr uint32_t kTellsOnce = EPOLLIN | EPOLLRDHUP | EPOLLET;

struct SocketAddress {
  sockaddr_storage socket{};
  socklen_t length = 0;
};

// Throws Error{kUsage} for what is no address.
SocketAddress parse_socket_address(const std::string& text);
// Both throw Error{kUnavailable} that says what was tried. On a port that the system chooses; tells
// it in `address`:
OpenFile listen_tcp(const std::string& host, std::string& address);
OpenFile listen_ipc(const std::string& address);
// The next connection to `listener`. Empty: errno says why; EACCES if it is another user's.
std::optional<OpenFile> accept_connection(const OpenFile& listener);
// Begins to connect: writable when that has ended. No file: errno says why; EACCES if another user
// listens there.
OpenFile begin_connect(const SocketAddress& address);
// Whether what began is connected; otherwise errno says why not.
bool is_connected(const OpenFile& socket);
// Whether it is one of ipc: files may come along, and nothing makes the system wait for more than a
// byte before it wakes somebody (SO_RCVLOWAT is TCP's).
bool is_local(const OpenFile& socket);
// Whether the system has too little left of something, which may be otherwise in a moment.
bool is_shortage(int error);
// How to have more of it, to stand behind what is said of it; empty: nobody knows.
std::string remedy_of(int error);

}  // namespace kerf::runtime
