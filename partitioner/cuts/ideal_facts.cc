#include "partitioner/cuts/ideal_facts.h"

#include <algorithm>

#include "partitioner/at.h"

namespace kerf::partitioner {

// What an ideal makes and others read enters a later stage, at least one. It has either both of two
// units or none, or it parts them.
IdealFacts::IdealFacts(const Units& units, const Ideals& ideals)
    : alive(at(ideals.size())), parted(at(ideals.size())), from_{0} {
  std::vector<bool> has(at(units.size()));
  for (int ideal = 0; ideal < ideals.size(); ++ideal) {
    std::fill(has.begin(), has.end(), false);
    for (const int unit : ideals.units_in(ideal)) has[at(unit)] = true;
    for (size_t v = 0; v < units.values.size(); ++v) {
      const UnitValue& value = units.values[v];
      if (!has[at(value.producer)] || std::all_of(value.readers.begin(), value.readers.end(),
                                                  [&](int reader) { return has[at(reader)]; }))
        continue;
      alive[at(ideal)] += value.bytes;
      values_.push_back(static_cast<int>(v));
    }
    from_.push_back(values_.size());
    for (const auto& [a, b] : units.close)
      if (has[at(a)] != has[at(b)]) parted[at(ideal)] = true;
  }
}

}  // namespace kerf::partitioner
