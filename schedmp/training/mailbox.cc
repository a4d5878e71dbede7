#include "schedmp/training/mailbox.h"

#include "runtime/error.h"
#include "schedmp/training/lanes.h"

namespace kerf::schedmp {

using runtime::Clock;
using runtime::Span;

namespace {

// How long one call to the transport may block; the waiting itself has no limit here, because the
// scheduler watches over progress and interrupts the endpoint.
constexpr auto kPatience = std::chrono::seconds(1);

// Says what is awaited while it lives, and counts the time.
class Waiting {
 public:
  Waiting(runtime::Workplace& workplace, const std::string& what, int peer, int64_t& waited_ns)
      : workplace_(workplace), what_(what), waited_ns_(waited_ns), begin_(runtime::now_ns()) {
    workplace_.activity.awaits(what, peer);
  }
  ~Waiting() {
    workplace_.activity.awaits_nothing();
    const int64_t end = runtime::now_ns();
    waited_ns_ += end - begin_;
    if (workplace_.trace.on())
      workplace_.trace.add({"wait for " + what_, Span::Kind::kWait, 2, begin_, end, 0});
  }
  Waiting(const Waiting&) = delete;

 private:
  runtime::Workplace& workplace_;
  const std::string& what_;
  int64_t& waited_ns_;
  int64_t begin_;
};

}  // namespace

Mailbox::Mailbox(const partitioner::Model& model, const partitioner::Plan& plan,
                 runtime::Workplace& workplace)
    : model_(model), plan_(plan), workplace_(workplace), lanes_(lanes_of_routes(plan)) {
  begin(0);
}

void Mailbox::begin(int64_t sequence) {
  sequence_ = static_cast<int32_t>(sequence & 0x7fffffff);
  waited_ns_ = bytes_in_ = 0;
  sent_.assign(plan_.routes.size(), {});
  for (size_t i = 0; i < sent_.size(); ++i) sent_[i].route = plan_.routes[i].id;
}

int Mailbox::sender_of(int index) const {
  return plan_.binding[static_cast<size_t>(route(index).from)];
}

int Mailbox::receiver_of(int index) const {
  return plan_.binding[static_cast<size_t>(route(index).to)];
}

runtime::Tag Mailbox::tag_of(int index, int micro_batch) const {
  return {index, micro_batch, sequence_, 0};
}

std::string Mailbox::name_of(int index, int micro_batch) const {
  return kerf::format("{}{} of micro-batch {}", route(index).gradient ? "the gradient of " : "",
                      model_.value(route(index).value).name, micro_batch);
}

uint64_t Mailbox::flow_of(int index, int micro_batch) const {
  return (static_cast<uint64_t>(sequence_) << 36 | static_cast<uint64_t>(index) << 17 |
          static_cast<uint32_t>(micro_batch)) +
         1;
}

runtime::Slot Mailbox::acquire(int index, int micro_batch, size_t bytes) {
  const int peer = receiver_of(index);
  const int lane = lanes_[static_cast<size_t>(index)];
  runtime::SendChannel& channel = workplace_.endpoint.sender(peer);
  if (auto slot = channel.acquire(lane, bytes, Clock::now())) return *slot;
  const std::string awaited = "a free slot for " + name_of(index, micro_batch);
  const Waiting waiting(workplace_, awaited, peer, waited_ns_);
  while (true)
    if (auto slot = channel.acquire(lane, bytes, runtime::after(kPatience))) return *slot;
}

void Mailbox::commit(int index, int micro_batch, const runtime::Slot& slot) {
  workplace_.endpoint.sender(receiver_of(index)).commit(slot, tag_of(index, micro_batch));
  RouteCount& count = sent_[static_cast<size_t>(index)];
  ++count.messages;
  count.bytes += static_cast<int64_t>(slot.bytes);
}

void Mailbox::abandon(int index, const runtime::Slot& slot) {
  workplace_.endpoint.sender(receiver_of(index)).abandon(slot);
}

runtime::View Mailbox::take(int index, int micro_batch, size_t bytes) {
  const int peer = sender_of(index);
  const std::string name = name_of(index, micro_batch);
  const runtime::View message = await(peer, tag_of(index, micro_batch), name);
  if (message.bytes != bytes)
    throw Error(ErrorCode::kProtocol,
                kerf::format("{} bytes came for {}, expected {}", message.bytes, name, bytes),
                kerf::format("worker {}", peer));
  return message;
}

runtime::View Mailbox::await(int peer, const runtime::Tag& tag, const std::string& name) {
  if (const auto found = early_.find({peer, tag}); found != early_.end()) {
    const runtime::View view = found->second;
    early_.erase(found);
    return view;
  }
  runtime::ReceiveChannel& channel = workplace_.endpoint.receiver(peer);
  std::optional<Waiting> waiting;
  std::optional<runtime::View> view = channel.receive(Clock::now());
  while (true) {
    if (view) {
      bytes_in_ += static_cast<int64_t>(view->bytes);
      if (view->tag == tag) return *view;
      early_.emplace(std::pair(peer, view->tag), *view);
      view = channel.receive(Clock::now());
      continue;
    }
    if (!waiting) waiting.emplace(workplace_, name, peer, waited_ns_);
    view = channel.receive(runtime::after(kPatience));
  }
}

void Mailbox::release(int index, const runtime::View& view) {
  workplace_.endpoint.receiver(sender_of(index)).release(view);
}

std::vector<RouteCount> Mailbox::sent() const {
  std::vector<RouteCount> counts;
  for (const RouteCount& count : sent_)
    if (count.messages > 0) counts.push_back(count);
  return counts;
}

}  // namespace kerf::schedmp
