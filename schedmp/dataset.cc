#include "schedmp/dataset.h"

#include "partitioner/losses.h"
#include "runtime/error.h"

namespace kerf::schedmp {
namespace {

using partitioner::Model;
using partitioner::Role;
using partitioner::Value;

std::string spec_text(const ops::ValueSpec& spec) {
  return format("{} {}", ops::to_string(spec.dtype), ops::to_string(spec.shape));
}

bool same_rows(const ops::ValueSpec& a, const ops::ValueSpec& b) {
  return a.dtype == b.dtype && a.shape.elements_per_sample() == b.shape.elements_per_sample();
}

// Rows that answer to any name would be the rows of every input.
void check_named(const Dataset& data, const std::string& name, const Model& model) {
  const std::vector<std::string> inputs = input_names(model);
  if (inputs.size() < 2) return;
  for (const std::string& input : inputs)
    if (data.input(input) && !data.named(input))
      throw Error(ErrorCode::kUsage,
                  format("it has nothing by the name of {}, and {} has {} inputs: {}; choose a "
                         "data set that has each of them by its name",
                         input, model.name(), inputs.size(), fmt::join(inputs, ", ")),
                  name);
}

void check_input(const Dataset& data, const std::string& name, const Model& model,
                 const Value& value) {
  const auto has = data.input(value.name);
  if (!has)
    throw Error(ErrorCode::kUsage,
                format("it has nothing for {}, an input of {}, {}; choose another data set",
                       value.name, model.name(), spec_text(value.spec)),
                name);
  if (!same_rows(*has, value.spec))
    throw Error(
        ErrorCode::kUsage,
        format("its rows have {} features of {}, but {}, an input of {}, has {} of {}; choose "
               "another data set",
               has->shape.elements_per_sample(), ops::to_string(has->dtype), value.name,
               model.name(), value.spec.shape.elements_per_sample(),
               ops::to_string(value.spec.dtype)),
        name);
}

void check_targets(const Dataset& data, const std::string& name, const Model& model,
                   const Value& value) {
  const auto has = data.targets();
  if (!has)
    throw Error(ErrorCode::kUsage,
                format("its labels are classes, but the loss of {} is of numbers, {}; choose "
                       "another data set or --loss",
                       model.name(), spec_text(value.spec)),
                name);
  if (has->elements_per_sample() != value.spec.shape.elements_per_sample())
    throw Error(ErrorCode::kUsage,
                format("its targets are {}, but those of {} are {}", ops::to_string(*has),
                       model.name(), ops::to_string(value.spec.shape)),
                name);
}

void check_labels(const Dataset& data, const std::string& name, const Model& model,
                  const Value& value) {
  const partitioner::ValueId other = model.find_value(partitioner::kLabels);
  if (other >= 0 && model.value(other).role == Role::kInput && data.named(partitioner::kLabels))
    throw Error(ErrorCode::kUsage,
                format("its {0} would be both labels and {0}, an input of {1}; rename the input in "
                       "the model's file",
                       partitioner::kLabels, model.name()),
                name);
  if (value.spec.dtype == ops::DType::kFloat32) return check_targets(data, name, model, value);
  const ops::ValueSpec has{ops::DType::kInt64, data.labels()};
  if (!same_rows(has, value.spec))
    throw Error(ErrorCode::kUsage,
                format("its labels are {}, but those of {} are {}", spec_text(has), model.name(),
                       spec_text(value.spec)),
                name);
  const int64_t classes = label_classes(model);
  if (data.classes() > classes)
    throw Error(
        ErrorCode::kUsage,
        format("it has {} classes, but {} gives {} scores", data.classes(), model.name(), classes),
        name);
}

}  // namespace

std::vector<std::string> input_names(const Model& model) {
  std::vector<std::string> names;
  for (partitioner::ValueId id = 0; id < model.values(); ++id)
    if (model.value(id).role == Role::kInput) names.push_back(model.value(id).name);
  return names;
}

int64_t label_classes(const Model& model) {
  for (partitioner::ValueId id = 0; id < model.values(); ++id) {
    if (model.value(id).role != Role::kLabel || partitioner::has_targets(model)) continue;
    for (const partitioner::Use& use : model.uses(id)) {
      const ops::Shape& scores = model.op(use.node).inputs()[0].spec.shape;
      if (scores.rank() >= 2) return scores[1];
    }
  }
  return 0;
}

int64_t labels_per_row(const Dataset& data, const Model& model) {
  return partitioner::has_targets(model) ? 1 : data.labels().elements_per_sample();
}

void check_fits(const Dataset& data, const std::string& name, const Model& model) {
  check_named(data, name, model);
  for (partitioner::ValueId id = 0; id < model.values(); ++id) {
    const Value& value = model.value(id);
    if (value.role == Role::kInput) check_input(data, name, model, value);
    if (value.role == Role::kLabel) check_labels(data, name, model, value);
  }
}

}  // namespace kerf::schedmp
