#include <algorithm>
#include <optional>

#include "partitioner/sources.h"

namespace kerf::partitioner {
namespace {

using ops::Box;
using ops::Layout;
using ops::Share;

Layout data_layout(const Sources& sources, ValueId value, const ops::Shape& shape) {
  Layout layout;
  const auto readers = sources.readers(value);
  for (const int part : readers) layout.shares.push_back({part, *sources.need(value, part)});
  return ops::check_layout(layout, shape).empty() ? layout
                                                  : Layout::replicated(readers, shape.rank());
}

// One reading of a parameter: by which computation, and which box.
struct Reading {
  const Computation* computation = nullptr;
  Box box;
};

std::vector<Reading> readings_of(const Model& model, const Sources& sources, ValueId value) {
  std::vector<Reading> readings;
  for (const Computation& computation : sources.computations()) {
    const auto& inputs = model.node(computation.node).inputs;
    for (size_t k = 0; k < inputs.size(); ++k)
      if (inputs[k] == value && !computation.inputs[k].empty())
        readings.push_back({&computation, computation.inputs[k]});
  }
  return readings;
}

// Whether two parts may each keep their own gradient: disjoint boxes, or replicas that compute the
// same.
bool independent(const Reading& a, const Reading& b) {
  if (ops::intersect(a.box, b.box).empty()) return true;
  if (a.computation->part == b.computation->part) return a.box == b.box;
  return a.box == b.box && a.computation->node == b.computation->node &&
         a.computation->box_number == b.computation->box_number;
}

Layout parameter_layout(const Model& model, const Sources& sources, ValueId value) {
  const auto readings = readings_of(model, sources, value);
  Layout layout;
  for (size_t i = 0; i < readings.size(); ++i) {
    const Reading& b = readings[i];
    for (size_t j = 0; j < i; ++j) {
      const Reading& a = readings[j];
      if (independent(a, b) || !model.needs_gradient(value)) continue;
      throw Error(
          ErrorCode::kUsage,
          format("node {} on part {} reads {} and node {} on part {} reads {}: its gradient "
                 "would be summed over them, which is not supported yet; give the nodes "
                 "equal or disjoint boxes, or parameters of their own",
                 model.node(a.computation->node).name, a.computation->part, ops::to_string(a.box),
                 model.node(b.computation->node).name, b.computation->part, ops::to_string(b.box)),
          format("parameter {}", model.value(value).name));
    }
    const Share* known = layout.find(b.computation->part);
    if (known == nullptr) {
      layout.shares.push_back({b.computation->part, b.box});
    } else if (known->box != b.box) {
      throw Error(ErrorCode::kUsage,
                  format("part {} reads it as {} and as {}: not supported yet; give the nodes "
                         "parameters of their own",
                         known->part, ops::to_string(known->box), ops::to_string(b.box)),
                  format("parameter {}", model.value(value).name));
    }
  }
  return layout;
}

}  // namespace

std::vector<Layout> layouts_of(const Model& model, const Division& division) {
  const Sources sources(model, division);
  std::vector<Layout> layouts(static_cast<size_t>(model.values()));
  for (ValueId id = 0; id < model.values(); ++id) {
    const auto at = static_cast<size_t>(id);
    if (ops::is_kept(model.value(id).role))
      layouts[at] = parameter_layout(model, sources, id);
    else if (model.value(id).role != Role::kActivation)
      layouts[at] = data_layout(sources, id, sources.shape(id));
    else
      layouts[at].shares = sources.shares(id);
  }
  return layouts;
}

}  // namespace kerf::partitioner
