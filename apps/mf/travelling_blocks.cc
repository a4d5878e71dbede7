#include "apps/mf/travelling_blocks.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

#include "runtime/error.h"

namespace kerf::apps {

namespace {

// How long one call to the transport may block; the waiting itself has no limit here, because the
// scheduler watches over progress and interrupts the endpoint.
constexpr auto kPatienceOfRing = std::chrono::seconds(1);

size_t bytes_of(int64_t numbers) { return static_cast<size_t>(numbers) * sizeof(float); }

// `attempt` until it gives something, with word of what is awaited once that takes long.
template <class Attempt>
auto insist(runtime::Workplace& workplace, const std::string& what, int from,
            const Attempt& attempt) {
  auto got = attempt(runtime::Clock::now());
  if (got) return *got;
  workplace.activity.awaits(what, from);
  while (!got) got = attempt(runtime::after(kPatienceOfRing));
  workplace.activity.awaits_nothing();
  return *got;
}

}  // namespace

schedmp::LaneTable lanes_of_travelling_blocks(int workers, int blocks, int64_t most_numbers) {
  schedmp::LaneTable lanes = schedmp::no_lanes(workers);
  const schedmp::BlockRotation rotation(workers, blocks);
  for (int worker = 0; worker < workers; ++worker)
    if (const auto to = rotation.visit(worker, 0).to)
      lanes[static_cast<size_t>(worker)][static_cast<size_t>(*to)] = {
          {.slot_bytes = bytes_of(most_numbers), .slots = blocks / workers + 1}};
  return lanes;
}

TravellingBlocks::TravellingBlocks(runtime::Workplace& workplace, std::vector<int64_t> sizes)
    : workplace_(workplace),
      rotation_(workplace.workers, static_cast<int>(sizes.size())),
      sizes_(std::move(sizes)),
      here_(home_blocks()) {
  if (workplace.device.kind() != runtime::DeviceKind::kCpu)
    throw Error(ErrorCode::kUsage,
                format("blocks travel through memory of the host, and a worker computes on {}; "
                       "take --device cpu",
                       workplace.device.name()));
  for (int place = 0; place < home_blocks(); ++place)
    values_.emplace_back(static_cast<size_t>(sizes_[static_cast<size_t>(home_block(place))]));
}

std::span<float> TravellingBlocks::take() {
  while (here_ <= now_) receive();
  return values_[static_cast<size_t>(now_ % home_blocks())];
}

void TravellingBlocks::give() {
  const schedmp::Visit visit = rotation_.visit(workplace_.worker, now_);
  const std::vector<float>& values = values_[static_cast<size_t>(now_ % home_blocks())];
  ++now_;
  if (!visit.to) return;
  runtime::SendChannel& channel = workplace_.endpoint.sender(*visit.to);
  const auto slot = insist(workplace_, format("a free slot for block {}", visit.block), *visit.to,
                           [&](runtime::Deadline until) {
                             return channel.acquire(0, bytes_of(std::ssize(values)), until);
                           });
  std::memcpy(slot.data, values.data(), slot.bytes);
  channel.commit(slot, {visit.block, static_cast<int32_t>(now_ & INT32_MAX), 0, 0});
}

// The next that was not here.
void TravellingBlocks::receive() {
  const schedmp::Visit visit = rotation_.visit(workplace_.worker, here_);
  std::vector<float>& values = values_[static_cast<size_t>(here_ % home_blocks())];
  ++here_;
  if (!visit.from) return;
  runtime::ReceiveChannel& channel = workplace_.endpoint.receiver(*visit.from);
  const auto view = insist(workplace_, format("block {}", visit.block), *visit.from,
                           [&](runtime::Deadline until) { return channel.receive(until); });
  values.resize(static_cast<size_t>(sizes_[static_cast<size_t>(visit.block)]));
  if (view.tag[0] != visit.block || view.bytes != bytes_of(std::ssize(values)))
    throw Error(ErrorCode::kProtocol,
                format("block {} of {} bytes came, expected block {} of {}", view.tag[0],
                       view.bytes, visit.block, bytes_of(std::ssize(values))),
                format("worker {}", *visit.from));
  std::memcpy(values.data(), view.data, view.bytes);
  channel.release(view);
}

std::vector<float>& TravellingBlocks::at_home(int place) {
  KERF_CHECK(now_ % blocks() == 0 && place >= 0 && place < home_blocks(), "place {}, rotation {}",
             place, now_);
  while (here_ < now_ + home_blocks()) receive();
  return values_[static_cast<size_t>(place)];
}

}  // namespace kerf::apps
