#include "runtime/inproc/inproc_pipe.h"

#include "runtime/error.h"
#include "runtime/standstill.h"

namespace kerf::runtime {
namespace {

// Touched once here, so that no message pays for a page fault.
Buffer allocate_touched(Device& device, size_t bytes) {
  Buffer buffer = device.allocate(bytes);
  const auto stream = device.make_stream();
  stream->fill_zero(buffer.data(), bytes);
  stream->synchronize();
  return buffer;
}

}  // namespace

InprocPipe::InprocPipe(const std::vector<Lane>& lanes, std::shared_ptr<Device> sender,
                       std::shared_ptr<InprocBell> bell)
    : lanes_(lanes),
      layout_(lanes),
      sender_(std::move(sender)),
      sender_bell_(std::move(bell)),
      memory_(allocate_touched(*sender_, layout_.total_bytes())),
      sent_(layout_),
      held_(layout_),
      written_(layout_, *sender_) {}

// The slots go when both devices are done with them, whichever side is the last to know the pipe.
InprocPipe::~InprocPipe() {
  written_.wait_all();
  read_.wait_all();
}

void InprocPipe::set_receiver(std::shared_ptr<Device> receiver, std::shared_ptr<InprocBell> bell) {
  if (receiver->name() != sender_->name())
    throw Error(ErrorCode::kUnavailable,
                kerf::format("threads of one process on devices {} and {}: neither reads the "
                             "other's memory; use processes",
                             sender_->name(), receiver->name()));
  const std::lock_guard lock(mutex_);
  receiver_ = std::move(receiver);
  receiver_bell_ = std::move(bell);
  if (!waiting_.empty()) receiver_bell_->ring();
  read_ = SlotEvents(layout_, *receiver_);
}

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
  return Slot{lane, index, bytes, data(lane, index),
              receiver_ == nullptr ? nullptr : read_.last(lane, index)};
}

void InprocPipe::commit(const Slot& slot, const Tag& tag, Stream* stream) {
  const std::lock_guard lock(mutex_);
  const SlotName name{slot.lane, slot.index, next_};
  sent_.committed(name);
  ++next_;
  waiting_.push_back({name, slot.bytes, tag, written_.record(slot.lane, slot.index, stream)});
  receiver_wakes_.notify_one();
  if (receiver_bell_) receiver_bell_->ring();
}

void InprocPipe::abandon(const Slot& slot) {
  const std::lock_guard lock(mutex_);
  sent_.abandoned(slot.lane, slot.index);
}

void InprocPipe::retain(const Slot& slot) {
  const std::lock_guard lock(mutex_);
  sent_.retained(slot.lane, slot.index);
}

void InprocPipe::retire(const Slot& slot) {
  const std::lock_guard lock(mutex_);
  sent_.retired(slot.lane, slot.index);
}

// Released is not read: that is for the receiver's device to say, and wakes nobody.
bool InprocPipe::drain(Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (!wait(lock, sender_wakes_, sender_interrupted_, deadline,
            [&] { return sent_.under_way() == 0; }))
    return false;
  while (!read_.all_happened()) {
    if (Clock::now() >= deadline) return false;
    (void)wait(lock, sender_wakes_, sender_interrupted_, after(kDevicePatience),
               [] { return false; });
  }
  return true;
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
  return View{slot.lane,     slot.index, message.bytes, message.tag, data(slot.lane, slot.index),
              message.ready, this};
}

void InprocPipe::release(const View& view, Stream* stream) {
  KERF_CHECK(view.owner == this, "a view was released to a channel that it did not come from");
  const std::lock_guard lock(mutex_);
  const uint64_t sequence = held_.release(view.lane, view.index);
  read_.record(view.lane, view.index, stream);
  sent_.released({view.lane, view.index, sequence});
  sender_wakes_.notify_one();
  sender_bell_->ring();
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
