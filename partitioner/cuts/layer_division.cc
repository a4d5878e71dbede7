// Divisions into layers as the search makes them, of segments of a line or of a chain of ideals,
// and a division as segments of a line of its own.
#include <algorithm>
#include <set>

#include "partitioner/at.h"
#include "partitioner/cuts/growing_stage.h"
#include "partitioner/cuts/layer_search.h"

namespace kerf::partitioner {

std::vector<int> LayerDivision::stage_of(int nodes) const {
  std::vector<int> result(at(nodes));
  for (size_t s = 0; s < stages.size(); ++s)
    for (const int node : stages[s]) result[at(node)] = static_cast<int>(s);
  return result;
}

LayerDivision LayerSearch::division_of(const IdealChain& chain, const StageLimits& given) const {
  return division_of(searched_units(), *searched_ideals(), chain, given);
}

LayerDivision LayerSearch::division_of(const Units& units, const Ideals& ideals,
                                       const IdealChain& chain, const StageLimits& given) {
  LayerDivision result;
  result.device_types = chain.device_types;
  const StageLimits limits = with_types(given, chain.device_types);
  GrowingStage stage(units);
  std::vector<int> before;
  for (size_t s = 0; s < chain.ideals.size(); ++s) {
    std::vector<bool> had(at(units.size()));
    for (const int unit : before) had[at(unit)] = true;
    stage.start(before);
    StageTotals totals;
    std::vector<int>& nodes = result.stages.emplace_back();
    before = ideals.units_in(chain.ideals[s]);
    for (const int unit : before) {
      if (had[at(unit)]) continue;
      totals = stage.add(unit, totals);
      const std::vector<int>& members = units.members[at(unit)];
      nodes.insert(nodes.end(), members.begin(), members.end());
    }
    std::sort(nodes.begin(), nodes.end());
    result.prices.push_back(totals.work[at(limits.device_type[s])] + totals.wire);
    result.bottleneck = std::max(result.bottleneck, result.prices.back());
    result.bytes += totals.bytes;
    result.memory.push_back(totals.fixed + limits.micro_batches[s] * totals.per_micro_batch);
    if (limits.device_type[s] != limits.host_type)
      result.fullest = std::max(result.fullest, result.memory.back());
  }
  return result;
}

// Units by stage, within each as a line has them.
std::vector<int> LayerSearch::order_by_stage(const LayerDivision& division) const {
  const std::vector<int> stage_of = division.stage_of(graph_.size());
  std::vector<int> order = lines_.front().order();
  std::ranges::stable_sort(
      order, {}, [&](int unit) { return stage_of[at(units_.members[at(unit)].front())]; });
  return order;
}

LayerSearch::Segmented LayerSearch::segmented(const LayerDivision& division) const {
  Segmented result{Line(units_, order_by_stage(division)), {}};
  int end = 0;
  for (const std::vector<int>& nodes : division.stages) {
    std::set<int> units;
    for (const int node : nodes) units.insert(units_.unit_of[at(node)]);
    result.ends.push_back(end += static_cast<int>(units.size()));
  }
  return result;
}

LayerDivision LayerSearch::division_of(const Found& found) const {
  return division_of(*found.candidate->line, *found.candidate->limits, found.segments.ends);
}

LayerDivision LayerSearch::division_of(const Line& line, const StageLimits& limits,
                                       const std::vector<int>& ends) const {
  LayerDivision result;
  result.device_types = limits.device_type;
  int begin = 0;
  for (size_t s = 0; s < ends.size(); ++s) {
    const int end = ends[s];
    std::vector<int>& nodes = result.stages.emplace_back();
    for (int p = begin; p < end; ++p) {
      const std::vector<int>& members = units_.members[at(line.order()[at(p)])];
      nodes.insert(nodes.end(), members.begin(), members.end());
    }
    std::sort(nodes.begin(), nodes.end());
    result.memory.push_back(line.memory(limits.micro_batches[s], begin, end));
    if (limits.device_type[s] != limits.host_type)
      result.fullest = std::max(result.fullest, result.memory.back());
    result.prices.push_back(line.price(limits.device_type[s], begin, end));
    result.bottleneck = std::max(result.bottleneck, result.prices.back());
    result.bytes += line.bytes(begin, end);
    begin = end;
  }
  return result;
}

}  // namespace kerf::partitioner
