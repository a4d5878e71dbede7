#include "schedmp/variables/travelling_blocks.h"

#include <chrono>
#include <cstring>
#include <string>

namespace kerf::schedmp {

namespace {

// How long one call to the transport may block; the waiting itself has no limit here, because the
// scheduler watches over progress and interrupts the endpoint.
constexpr auto kPatienceOfRing = std::chrono::seconds(1);

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

LaneTable lanes_of_travelling_blocks(int workers, int blocks, int64_t most_bytes) {
  LaneTable lanes = no_lanes(workers);
  const BlockRotation rotation(workers, blocks);
  for (int worker = 0; worker < workers; ++worker)
    if (const auto to = rotation.visit(worker, 0).to)
      lanes[static_cast<size_t>(worker)][static_cast<size_t>(*to)] = {
          {.slot_bytes = static_cast<size_t>(most_bytes), .slots = blocks / workers + 1}};
  return lanes;
}

BlockTravel::BlockTravel(runtime::Workplace& workplace, int blocks)
    : workplace_(workplace), rotation_(workplace.workers, blocks) {
  if (workplace.device.kind() != runtime::DeviceKind::kCpu)
    throw Error(ErrorCode::kUsage,
                format("blocks travel through memory of the host, and a worker computes on {}; "
                       "take --device cpu",
                       workplace.device.name()));
}

void BlockTravel::send(const Visit& visit, int64_t rotation, std::span<const std::byte> block) {
  if (!visit.to) return;
  runtime::SendChannel& channel = workplace_.endpoint.sender(*visit.to);
  const auto slot =
      insist(workplace_, format("a free slot for block {}", visit.block), *visit.to,
             [&](runtime::Deadline until) { return channel.acquire(0, block.size(), until); });
  if (!block.empty()) std::memcpy(slot.data, block.data(), slot.bytes);
  channel.commit(slot, {visit.block, static_cast<int32_t>(rotation & INT32_MAX), 0, 0});
}

void BlockTravel::receive(const Visit& visit, std::span<std::byte> block) {
  if (!visit.from) return;
  runtime::ReceiveChannel& channel = workplace_.endpoint.receiver(*visit.from);
  const auto view = insist(workplace_, format("block {}", visit.block), *visit.from,
                           [&](runtime::Deadline until) { return channel.receive(until); });
  if (view.tag[0] != visit.block || view.bytes != block.size())
    throw Error(ErrorCode::kProtocol,
                format("block {} of {} bytes came, expected block {} of {}", view.tag[0],
                       view.bytes, visit.block, block.size()),
                format("worker {}", *visit.from));
  if (!block.empty()) std::memcpy(block.data(), view.data, view.bytes);
  channel.release(view);
}

}  // namespace kerf::schedmp
