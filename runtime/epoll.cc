#include "runtime/epoll.h"

#include <cerrno>
#include <cstring>

#include "runtime/error.h"

namespace kerf::runtime {

Epoll::Epoll() : file_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (file_.number() < 0)
    throw Error(ErrorCode::kUnavailable, kerf::format("no epoll: {}", std::strerror(errno)));
}

bool Epoll::try_add(int descriptor, uint32_t events, void* whose) const {
  epoll_event event{};
  event.events = events;
  event.data.ptr = whose;
  return ::epoll_ctl(file_.number(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

void Epoll::add(int descriptor, uint32_t events, void* whose) const {
  if (!try_add(descriptor, events, whose))
    throw Error(ErrorCode::kUnavailable,
                kerf::format("no more room in an epoll: {}", std::strerror(errno)));
}

void Epoll::remove(int descriptor) const {
  ::epoll_ctl(file_.number(), EPOLL_CTL_DEL, descriptor, nullptr);
}

void Epoll::change(int descriptor, uint32_t events, void* whose) const {
  epoll_event event{};
  event.events = events;
  event.data.ptr = whose;
  KERF_CHECK(::epoll_ctl(file_.number(), EPOLL_CTL_MOD, descriptor, &event) == 0, "epoll_ctl: {}",
             std::strerror(errno));
}

}  // namespace kerf::runtime
