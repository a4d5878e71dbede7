#include "runtime/inproc/inproc_pipe.h"

#include <cstring>
#include <new>

#include "runtime/error.h"
#include "runtime/standstill.h"

namespace kerf::runtime {
namespace {

constexpr std::align_val_t kPageAlignment{4096};

// Touched once here, so that no message pays for a page fault.
std::byte* allocate_touched(size_t bytes) {
  auto* data =
      static_cast<std::byte*>(::operator new[](std::max<size_t>(bytes, 1), kPageAlignment));
  std::memset(data, 0, bytes);
  return data;
}

}  // namespace

void InprocPipe::FreeAligned::operator()(std::byte* data) const {
  ::operator delete[](data, kPageAlignment);
}

InprocPipe::InprocPipe(const std::vector<Lane>& lanes)
    : lanes_(lanes),
      layout_(lanes),
      memory_(allocate_touched(layout_.total_bytes())),
      sent_(layout_),
      held_(layout_) {}

template <class Wanted>
bool InprocPipe::wait(std::unique_lock<std::mutex>& lock, std::condition_variable& woken,
                      const bool& interrupted, Deadline deadline, Wanted wanted) {
  wait_running(woken, lock, deadline, [&] { return interrupted || wanted(); });
  if (interrupted) throw Error(ErrorCode::kInterrupted, "interrupted");
  return wanted();
}

std::optional<Slot> InprocPipe::acquire(int lane, size_t bytes, Deadline deadline) {
  KERF_CHECK(lane >= 0 && lane < layout_.lanes(), "lane {} does not exist", lane);
  KERF_CHECK(bytes <= layout_.slot_bytes(lane), "{} bytes do not fit lane {} with slots of {}",
             bytes, lane, layout_.slot_bytes(lane));
  std::unique_lock lock(mutex_);
  if (!wait(lock, sender_wakes_, sender_interrupted_, deadline,
            [&] { return sent_.has_free(lane); }))
    return std::nullopt;
  const int index = *sent_.take(lane);
  return Slot{lane, index, bytes, data(lane, index)};
}

void InprocPipe::commit(const Slot& slot, const Tag& tag) {
  const std::lock_guard lock(mutex_);
  const SlotName name{slot.lane, slot.index, next_};
  sent_.committed(name);
  ++next_;
  waiting_.push_back({name, slot.bytes, tag});
  receiver_wakes_.notify_one();
}

void InprocPipe::abandon(const Slot& slot) {
  const std::lock_guard lock(mutex_);
  sent_.abandoned(slot.lane, slot.index);
}

bool InprocPipe::drain(Deadline deadline) {
  std::unique_lock lock(mutex_);
  return wait(lock, sender_wakes_, sender_interrupted_, deadline,
              [&] { return sent_.under_way() == 0; });
}

std::optional<View> InprocPipe::receive(Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (!wait(lock, receiver_wakes_, receiver_interrupted_, deadline,
            [&] { return !waiting_.empty(); }))
    return std::nullopt;
  const Waiting message = waiting_.front();
  waiting_.pop_front();
  held_.hold(message.slot);
  const SlotName& slot = message.slot;
  return View{slot.lane, slot.index, message.bytes, message.tag, data(slot.lane, slot.index), this};
}

void InprocPipe::release(const View& view) {
  KERF_CHECK(view.owner == this, "a view was released to a channel that it did not come from");
  const std::lock_guard lock(mutex_);
  const uint64_t sequence = held_.release(view.lane, view.index);
  sent_.released({view.lane, view.index, sequence});
  sender_wakes_.notify_one();
}

void InprocPipe::interrupt_sender() {
  const std::lock_guard lock(mutex_);
  sender_interrupted_ = true;
  sender_wakes_.notify_all();
}

void InprocPipe::interrupt_receiver() {
  const std::lock_guard lock(mutex_);
  receiver_interrupted_ = true;
  receiver_wakes_.notify_all();
}

}  // namespace kerf::runtime
