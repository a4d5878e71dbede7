#include "runtime/sockets/passed_file.h"

#include <cstring>

namespace kerf::runtime {

void PassedFile::send_with(msghdr& message, const OpenFile& file) {
  cmsghdr head{};
  head.cmsg_level = SOL_SOCKET;
  head.cmsg_type = SCM_RIGHTS;
  head.cmsg_len = CMSG_LEN(sizeof(int));
  const int number = file.number();
  std::memcpy(control_.data(), &head, sizeof head);
  std::memcpy(control_.data() + CMSG_LEN(0), &number, sizeof number);
  message.msg_control = control_.data();
  message.msg_controllen = control_.size();
}

// Behind the end of a number there is room for another, of which the system would make use.
void PassedFile::receive_with(msghdr& message) {
  message.msg_control = control_.data();
  message.msg_controllen = CMSG_LEN(sizeof(int));
}

PassedFile::Came PassedFile::came_with(const msghdr& message) {
  Came came;
  const bool is_cut = (message.msg_flags & MSG_CTRUNC) != 0;
  cmsghdr head{};
  if (message.msg_control != nullptr && message.msg_controllen >= CMSG_LEN(sizeof(int))) {
    const auto* const control = static_cast<const std::byte*>(message.msg_control);
    std::memcpy(&head, control, sizeof head);
    int number = -1;
    std::memcpy(&number, control + CMSG_LEN(0), sizeof number);
    if (head.cmsg_level == SOL_SOCKET && head.cmsg_type == SCM_RIGHTS &&
        head.cmsg_len == CMSG_LEN(sizeof(int)))
      came.file = OpenFile(number);
  }
  const bool is_taken = came.file.number() >= 0;
  came.is_any = is_taken || is_cut;
  came.is_more = is_taken && is_cut;
  return came;
}

}  // namespace kerf::runtime
