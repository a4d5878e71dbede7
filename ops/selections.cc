#include "ops/selections.h"

#include <utility>

namespace kerf::ops {
namespace {

size_t mixed(size_t hash, int64_t number) {
  constexpr size_t kGolden = 0x9e3779b97f4a7c15;
  return (hash ^ static_cast<size_t>(number)) * kGolden;
}

size_t mixed(size_t hash, const Box& box) {
  for (const IndexSet& set : box.axes)
    for (const Range& range : set.ranges()) hash = mixed(mixed(hash, range.begin), range.end);
  return hash;
}

}  // namespace

size_t Selections::Hash::operator()(const Key& key) const {
  size_t hash = mixed(mixed(0, key.holder), key.piece);
  for (const int64_t extent : key.spec.shape) hash = mixed(hash, extent);
  return hash ^ (hash >> 32);
}

const Selection& Selections::of(const Box& holder, const Box& piece, const ValueSpec& spec) {
  Key key{holder, piece, spec};
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  Selection made(holder, piece, spec);
  return known_.emplace(std::move(key), std::move(made)).first->second;
}

}  // namespace kerf::ops
