#include "runtime/inproc/inproc_hub.h"

#include "runtime/format.h"
#include "runtime/standstill.h"

namespace kerf::runtime {

std::shared_ptr<InprocHub> make_inproc_hub() { return std::make_shared<InprocHub>(); }

std::string InprocHub::new_address(const std::string& label) {
  const std::lock_guard lock(mutex_);
  return kerf::format("inproc://{}#{}", label, addresses_++);
}

void InprocHub::offer(const InprocMeeting& meeting, std::shared_ptr<InprocPipe> pipe) {
  const std::lock_guard lock(mutex_);
  offers_[meeting] = std::move(pipe);
  changed_.notify_all();
}

std::shared_ptr<InprocPipe> InprocHub::find(const InprocMeeting& meeting, Deadline deadline,
                                            const std::function<bool()>& stop) {
  std::unique_lock lock(mutex_);
  wait_running(changed_, lock, deadline, [&] { return offers_.contains(meeting) || stop(); });
  const auto found = offers_.find(meeting);
  return found == offers_.end() ? nullptr : found->second;
}

void InprocHub::take(const InprocMeeting& meeting) {
  const std::lock_guard lock(mutex_);
  offers_.erase(meeting);
  changed_.notify_all();
}

bool InprocHub::wait_taken(const InprocMeeting& meeting, Deadline deadline,
                           const std::function<bool()>& stop) {
  std::unique_lock lock(mutex_);
  wait_running(changed_, lock, deadline, [&] { return !offers_.contains(meeting) || stop(); });
  return !offers_.contains(meeting);
}

void InprocHub::forget(const std::string& address) {
  const std::lock_guard lock(mutex_);
  std::erase_if(offers_, [&](const auto& entry) { return entry.first.sender == address; });
}

void InprocHub::wake() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

}  // namespace kerf::runtime
