#include "schedmp/links.h"

namespace kerf::schedmp {

const Link* Links::between(int worker, int other) const {
  const auto found = listed.find({std::min(worker, other), std::max(worker, other)});
  if (found != listed.end()) return &found->second;
  return every ? &*every : nullptr;
}

bool Links::count_bytes() const {
  const auto counts = [](const Link& link) {
    return link.bandwidth < std::numeric_limits<double>::infinity();
  };
  return (every && counts(*every)) ||
         std::any_of(listed.begin(), listed.end(),
                     [&](const auto& of) { return counts(of.second); });
}

}  // namespace kerf::schedmp
