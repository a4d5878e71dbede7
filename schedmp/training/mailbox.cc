#include "schedmp/training/mailbox.h"

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

runtime::View Mailbox::take(int peer, const runtime::Tag& tag, const std::string& what) {
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
    if (!waiting) waiting.emplace(workplace_, what, peer, waited_ns_);
    view = channel.receive(runtime::after(kPatience));
  }
}

runtime::Slot Mailbox::acquire(int peer, int lane, size_t bytes, const std::string& what) {
  runtime::SendChannel& channel = workplace_.endpoint.sender(peer);
  if (auto slot = channel.acquire(lane, bytes, Clock::now())) return *slot;
  const std::string awaited = "a free slot for " + what;
  const Waiting waiting(workplace_, awaited, peer, waited_ns_);
  while (true)
    if (auto slot = channel.acquire(lane, bytes, runtime::after(kPatience))) return *slot;
}

void Mailbox::release(int peer, const runtime::View& view) {
  workplace_.endpoint.receiver(peer).release(view);
}

}  // namespace kerf::schedmp
