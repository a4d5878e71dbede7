#include "schedmp/training/trail.h"

#include <algorithm>
#include <atomic>

#include "runtime/format.h"

namespace kerf::schedmp {

Trail::Trail(ops::Workbench& bench) : bench_(bench) {
  const runtime::PinnedMemory memory = bench.device().allocate_pinned(sizeof(int64_t));
  done_ = {memory, reinterpret_cast<int64_t*>(memory.get())};
  *done_ = 0;
}

void Trail::begin(int64_t step) {
  before_ += std::ssize(places_);
  places_.clear();
  step_ = step;
}

void Trail::passed(std::string_view action, std::string_view node) {
  places_.push_back({action, node});
  if (bench_.mark(done_.get(), last())) late_ = true;
}

std::string Trail::first_open() const {
  const int64_t done = std::atomic_ref(*done_).load() - before_;
  if (done >= std::ssize(places_)) return {};
  const Place& place = places_[static_cast<size_t>(std::max<int64_t>(done, 0))];
  const std::string action = kerf::format("step {}: {}", step_, place.action);
  return place.node.empty() ? action : kerf::format("{}, {}", place.node, action);
}

}  // namespace kerf::schedmp
