#include "tests/conformance/intruder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>

#include "runtime/format.h"
#include "runtime/sockets/stream_socket.h"

namespace kerf::runtime {

void Intruder::send(const std::vector<std::string>& frames, const Files& files) {
  if (!connection_) connection_ = connect();
  write(*connection_, frames, files);
}

void Intruder::send_garbage(const std::vector<std::string>& frames, const Files& files) const {
  write(connect(), frames, files);
}

OpenFile Intruder::connect() const {
  OpenFile made = begin_connect(parse_socket_address(address_));
  pollfd item{made.number(), POLLOUT, 0};
  EXPECT_EQ(::poll(&item, 1, 10'000), 1);
  EXPECT_TRUE(is_connected(made));
  ::fcntl(made.number(), F_SETFL, 0);  // from now on it blocks
  return made;
}

void Intruder::write(const OpenFile& connection, const std::vector<std::string>& frames,
                     const Files& files) {
  std::string bytes = kerf::format("{}", fmt::join(frames, ""));
  size_t done = 0;
  if (!files.empty()) {
    const size_t size = sizeof(int) * files.size();
    std::vector<std::byte> control(CMSG_SPACE(size));
    iovec first{bytes.data(), 1};
    msghdr message{};
    message.msg_iov = &first;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr head{};
    head.cmsg_level = SOL_SOCKET;
    head.cmsg_type = SCM_RIGHTS;
    head.cmsg_len = CMSG_LEN(size);
    std::memcpy(control.data(), &head, sizeof head);
    std::memcpy(control.data() + CMSG_LEN(0), files.data(), size);
    if (::sendmsg(connection.number(), &message, MSG_NOSIGNAL) != 1) return;
    done = 1;
  }
  while (done < bytes.size()) {
    const ssize_t count =
        ::send(connection.number(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (count <= 0) return;
    done += static_cast<size_t>(count);
  }
}

}  // namespace kerf::runtime
