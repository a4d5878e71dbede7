#include "schedmp/training/replica_slices.h"

#include <algorithm>
#include <map>
#include <set>

namespace kerf::schedmp {

namespace {

std::set<std::string> names_of_states(const partitioner::Model& model) {
  std::set<std::string> names;
  for (const partitioner::ValueId id : model.kept_values())
    if (model.value(id).role == ops::Role::kState) names.insert(model.value(id).name);
  return names;
}

std::multimap<std::string, ops::Box> boxes_in_tables(
    const partitioner::Model& model, const std::vector<const partitioner::Part*>& parts) {
  std::multimap<std::string, ops::Box> boxes;
  for (const partitioner::Part* part : parts)
    for (const SharedTensor& tensor : shared_tensors(*part)) {
      const ElementsOf of = elements_of(model, *part, tensor);
      boxes.emplace(of.value.name, of.held);
    }
  return boxes;
}

}  // namespace

std::string kind_of_replica(int replica, const std::string& kind) {
  return kerf::format("replica-{}/{}", replica, kind);
}

std::string kind_of_group(int group, const std::string& kind) {
  return group == 0 ? kind : kerf::format("group-{}/{}", group, kind);
}

std::string kind_of_vector(int32_t vector) { return kerf::format("vector-{}", vector); }

ElementsOf elements_of(const partitioner::Model& model, const partitioner::Part& part,
                       const SharedTensor& tensor, int64_t first) {
  const partitioner::Local& local = part.locals[static_cast<size_t>(tensor.local)];
  return {model.value(local.value), local.box, first};
}

ServedElements served_of(const TableSpec& table, int worker, const SharedTensor& tensor) {
  const std::optional<TablePlace> place = place_in(table, worker);
  if (!place) return {};
  const TableRows rows(table, static_cast<int>(table.groups[0].size()));
  const ops::Range own = rows.own(place->place, tensor.rows);
  if (own.size() <= 0) return {};
  const int64_t first = (rows.row(place->place, own.begin) - tensor.rows.begin) * table.width;
  const int64_t end = std::min(tensor.elements, first + own.size() * table.width);
  return {first, own.begin * table.width, end - first, own};
}

// Statistics that no table has, as those of a part that trains nothing, are each replica's own; all
// else that no table has is the same in all of them.
std::vector<StoredSlice> slices_of_replica(const partitioner::Model& model,
                                           const std::vector<const partitioner::Part*>& parts,
                                           int replica, Reach reach, bool own,
                                           const std::vector<StoredSlice>& tensors) {
  const std::multimap<std::string, ops::Box> shared = boxes_in_tables(model, parts);
  const std::set<std::string> states = names_of_states(model);
  std::vector<StoredSlice> slices;
  for (const StoredSlice& each : tensors) {
    const auto [begin, end] = shared.equal_range(each.tensor);
    const bool in_table =
        std::any_of(begin, end, [&](const auto& box) { return box.second.contains(each.box); });
    const bool is_own = own || (!in_table && replica > 0 && states.contains(each.tensor));
    if (is_own) {
      slices.push_back(each);
      slices.back().kind = kind_of_replica(replica, each.kind);
    }
    const bool is_of_all = replica == 0 && reach == Reach::kTogether && each.kind == kWeights;
    if (is_of_all && !in_table) slices.push_back(each);
  }
  return slices;
}

Parameters::KindOf kinds_of_replica(const StoredSlices& from, int replica, int group) {
  return [&from, replica, group](const std::string& kind, const std::string& tensor) {
    for (const std::string& known : {kind_of_replica(replica, kind), kind_of_group(group, kind)})
      if (from.has(known, tensor)) return known;
    return kind;
  };
}

}  // namespace kerf::schedmp
