#include "runtime/control_link.h"

#include <algorithm>
#include <cstring>

namespace kerf::runtime {
namespace {

using namespace std::chrono_literals;

// Frames of the link itself, beside the numbered frames of ControlType.
constexpr uint16_t kAcknowledge = 0x100;
constexpr uint16_t kProbe = 0x101;      // sequence: what the sender will send next; please answer
constexpr uint16_t kSendAgain = 0x102;  // from the acknowledged number on
constexpr uint16_t kMoreFollows = 0x8000;

constexpr size_t kAcknowledgementBytes = sizeof(uint64_t);
constexpr size_t kLargestWhole = kMaxControlBytes - kAcknowledgementBytes;
// Of what is larger. Whoever takes a piece frees it: the heap that it is of goes back to the kernel
// behind blocks of 64 KiB, but blocks of 128 KiB and more teach the C library to keep as much.
constexpr size_t kPieceBytes = size_t{96} << 10;
constexpr size_t kReused = size_t{1} << 16;  // memory of larger ones is given back
constexpr int64_t kBesideFrame = 64;         // bytes that keeping one takes, about
constexpr int kOwedAtMost = 64;
constexpr auto kOwedFor = 20ms;
constexpr auto kQuiet = 300ms;
constexpr auto kAskAgainAfter = 50ms;
constexpr int kOpenAgainEvery = 10;  // probes, 3 s: they wait for a scheduler that is not there yet

ControlType type_of(const Frame& frame) {
  return static_cast<ControlType>(frame.header.type & static_cast<uint16_t>(~kMoreFollows));
}

bool is_message(const Frame& frame) {
  return type_of(frame) >= ControlType::kRegister && type_of(frame) <= ControlType::kStored;
}

bool is_answer(const ControlMessage& message) {
  return message.type == ControlType::kStored || message.type == ControlType::kClock;
}

}  // namespace

ControlLink::ControlLink(Emit emit, size_t takes)
    : emit_(std::move(emit)), takes_(takes), probe_at_(after(kQuiet)) {}

bool ControlLink::opens(const Frame& frame) {
  return frame.header.type == static_cast<uint16_t>(ControlType::kRegister) &&
         frame.header.sequence == 0 && frame.payload.size() >= kAcknowledgementBytes;
}

bool ControlLink::ends_message(const Frame& frame) {
  return is_message(frame) && (frame.header.type & kMoreFollows) == 0;
}

std::string ControlLink::make(uint16_t type, uint64_t sequence, std::string_view piece) {
  const uint64_t expected = received_.next();
  body_.assign(reinterpret_cast<const char*>(&expected), sizeof expected);
  body_.append(piece);
  owed_ = 0;
  acknowledge_at_ = Clock::time_point::max();
  std::string frame = make_frame({.type = type, .epoch = 0, .sequence = sequence}, body_);
  if (body_.capacity() > kReused) std::string().swap(body_);
  return frame;
}

void ControlLink::send(const ControlMessage& message) {
  check_size(message);
  std::string_view rest = message.payload;
  const size_t most = rest.size() > kLargestWhole ? kPieceBytes : kLargestWhole;
  do {
    const std::string_view piece = rest.substr(0, most);
    rest.remove_prefix(piece.size());
    auto type = static_cast<uint16_t>(message.type);
    if (!rest.empty()) type |= kMoreFollows;
    std::string frame = make(type, unacknowledged_.next(), piece);
    emit_(frame);
    const int64_t of_answer =
        is_answer(message) ? kBesideFrame + static_cast<int64_t>(frame.size()) : 0;
    kept_answers_ += of_answer;
    unacknowledged_.number({std::move(frame), of_answer});
  } while (!rest.empty());
  ++counters_.sent;
}

void ControlLink::emit_bare(uint16_t type) { emit_(make(type, unacknowledged_.next(), {})); }

void ControlLink::probe() { emit_bare(kProbe); }

std::optional<ControlMessage> ControlLink::receive(const Frame& frame) {
  if (frame.payload.size() < kAcknowledgementBytes) {
    ++counters_.dropped;
    return {};
  }
  heard_ = true;
  uint64_t arrived = 0;
  std::memcpy(&arrived, frame.payload.data(), sizeof arrived);
  unacknowledged_.acknowledged(std::min(arrived, unacknowledged_.next()),
                               [this](const Kept& sent) { kept_answers_ -= sent.of_answer; });
  probe_at_ = after(kQuiet);

  switch (frame.header.type) {
    case kAcknowledge:
      return {};
    case kProbe:
      emit_bare(received_.next() < frame.header.sequence ? kSendAgain : kAcknowledge);
      return {};
    case kSendAgain:
      send_again(arrived);
      return {};
    default:
      return deliver(frame);
  }
}

std::optional<ControlMessage> ControlLink::deliver(const Frame& frame) {
  if (!is_message(frame)) {
    ++counters_.dropped;
    return {};
  }
  switch (received_.see(frame.header.sequence)) {
    case ReceiveWindow::Verdict::kDeliver:
      break;
    case ReceiveWindow::Verdict::kDuplicate:
      ++counters_.dropped;
      owe_acknowledgement();
      return {};
    case ReceiveWindow::Verdict::kGap:
      ++counters_.dropped;
      ask_again();
      return {};
  }
  owe_acknowledgement();
  const std::string_view piece = frame.payload.substr(kAcknowledgementBytes);
  const bool last = (frame.header.type & kMoreFollows) == 0;
  const size_t largest = std::min(takes_, largest_of(type_of(frame)));
  if (oversized_ || partial_.payload.size() + piece.size() > largest) {
    oversized_ = !last;
    std::string().swap(partial_.payload);  // which gives its memory back
    ++counters_.dropped;
    return {};
  }
  if (!last && partial_.payload.empty()) partial_.payload.reserve(largest);  // which touches none
  partial_.payload.append(piece);
  if (!last) return {};
  ++counters_.received;
  partial_.type = type_of(frame);
  return std::exchange(partial_, {});
}

void ControlLink::owe_acknowledgement() {
  if (++owed_ >= kOwedAtMost)
    emit_bare(kAcknowledge);
  else if (acknowledge_at_ == Clock::time_point::max())
    acknowledge_at_ = after(kOwedFor);
}

void ControlLink::acknowledge_now() {
  if (owed_ > 0) emit_bare(kAcknowledge);
}

void ControlLink::send_again(uint64_t from) {
  counters_.resent +=
      unacknowledged_.resend_from(from, [&](uint64_t, const Kept& again) { emit_(again.frame); });
}

// One request per gap: everything that follows the gap would ask again otherwise.
void ControlLink::ask_again() {
  const auto now = Clock::now();
  if (now < asked_again_ + kAskAgainAfter) return;
  asked_again_ = now;
  emit_bare(kSendAgain);
}

void ControlLink::tick(Clock::time_point now) {
  if (now >= probe_at_) {
    probe_at_ = now + kQuiet;
    if (!heard_ && ++unheard_probes_ % kOpenAgainEvery == 0) send_again(0);
    emit_bare(kProbe);
  } else if (now >= acknowledge_at_) {
    emit_bare(kAcknowledge);
  }
}

}  // namespace kerf::runtime
