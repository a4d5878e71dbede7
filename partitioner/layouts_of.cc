#include "partitioner/sources.h"

namespace kerf::partitioner {
namespace {

using ops::Layout;

// Where rows of the data set are read: what each reader needs, or all of it.
Layout data_layout(const Sources& sources, ValueId value) {
  Layout layout;
  const ops::Shape shape = sources.shape(value);
  const auto readers = sources.readers(value);
  for (const int part : readers) layout.shares.push_back({part, *sources.need(value, part)});
  return ops::check_layout(layout, shape).empty() ? layout
                                                  : Layout::replicated(readers, shape.rank());
}

}  // namespace

std::vector<Layout> layouts_of(const Model& model, const Division& division) {
  return layouts_of(Sources(model, division));
}

std::vector<Layout> layouts_of(const Sources& sources) {
  const Model& model = sources.model();
  std::vector<Layout> layouts(static_cast<size_t>(model.values()));
  for (ValueId id = 0; id < model.values(); ++id) {
    const Role role = model.value(id).role;
    const auto at = static_cast<size_t>(id);
    if (role == Role::kActivation || ops::is_kept(role))
      layouts[at].shares = sources.shares(id);
    else
      layouts[at] = data_layout(sources, id);
  }
  return layouts;
}

}  // namespace kerf::partitioner
