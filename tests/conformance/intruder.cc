#include "tests/conformance/intruder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include "runtime/format.h"
#include "runtime/sockets/stream_socket.h"

namespace kerf::runtime {

void Intruder::send(const std::vector<std::string>& frames) {
  if (!connection_) connection_ = connect();
  write(*connection_, frames);
}

void Intruder::send_garbage(const std::vector<std::string>& frames) const {
  write(connect(), frames);
}

OpenFile Intruder::connect() const {
  OpenFile made = begin_connect(parse_socket_address(address_));
  pollfd item{made.number(), POLLOUT, 0};
  EXPECT_EQ(::poll(&item, 1, 10'000), 1);
  EXPECT_TRUE(is_connected(made));
  ::fcntl(made.number(), F_SETFL, 0);  // from now on it blocks
  return made;
}

void Intruder::write(const OpenFile& connection, const std::vector<std::string>& frames) {
  const std::string bytes = kerf::format("{}", fmt::join(frames, ""));
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count =
        ::send(connection.number(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (count <= 0) return;
    done += static_cast<size_t>(count);
  }
}

}  // namespace kerf::runtime
