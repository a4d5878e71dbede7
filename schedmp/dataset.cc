#include "schedmp/dataset.h"

#include <algorithm>

#include "ops/operators/gather.h"
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

// The axes of a row, but for those of 1.
std::vector<int64_t> row_axes(const ops::Shape& shape) {
  std::vector<int64_t> axes;
  for (int axis = 1; axis < shape.rank(); ++axis)
    if (shape[axis] != 1) axes.push_back(shape[axis]);
  return axes;
}

// Whether rows of one are rows of the other as they lie in memory, and mean the same there.
bool same_axes(const ops::Shape& a, const ops::Shape& b) {
  const auto of_a = row_axes(a);
  const auto of_b = row_axes(b);
  if (of_a == of_b) return true;
  return a.elements_per_sample() == b.elements_per_sample() &&
         (of_a.size() <= 1 || of_b.size() <= 1);
}

constexpr size_t kMostListed = 100;  // names in a message
constexpr const char* kThatOrder = "give the axes in that order";

// Rows that answer to any name would be the rows of every input.
void check_named(const Dataset& data, const std::string& name, const Model& model) {
  const std::vector<std::string> inputs = input_names(model);
  if (inputs.size() < 2) return;
  for (const std::string& input : inputs)
    if (data.input(input) && !data.has_own(input))
      throw Error(ErrorCode::kUsage,
                  format("it has nothing by the name of {}, and {} has {} inputs: {}; choose a "
                         "data set that has each of them by its name",
                         input, model.name(), inputs.size(), fmt::join(inputs, ", ")),
                  name);
}

void check_input(const Dataset& data, const std::string& name, const Model& model,
                 const Value& value) {
  const auto has = data.input(value.name);
  const std::string offers = data.offers();
  if (!has)
    throw Error(ErrorCode::kUsage,
                format("it has nothing for {}, an input of {}, {}; {}", value.name, model.name(),
                       spec_text(value.spec),
                       offers.empty() ? "choose another data set"
                                      : format("it has {}: give one of them that name", offers)),
                name);
  const bool as_many = has->shape.elements_per_sample() == value.spec.shape.elements_per_sample();
  if (has->dtype != value.spec.dtype || !as_many)
    throw Error(ErrorCode::kUsage,
                format("its rows have {} features of {}, but {}, an input of {}, has {} of {}; {}",
                       has->shape.elements_per_sample(), ops::to_string(has->dtype), value.name,
                       model.name(), value.spec.shape.elements_per_sample(),
                       ops::to_string(value.spec.dtype),
                       as_many && !offers.empty()
                           ? format("save it by .astype(\"{}\")", ops::to_string(value.spec.dtype))
                           : "choose another data set"),
                name);
  if (!same_axes(has->shape, value.spec.shape))
    throw Error(
        ErrorCode::kUsage,
        format("its rows are {}, but {}, an input of {}, is {}; {}", ops::to_string(has->shape),
               value.name, model.name(), ops::to_string(value.spec.shape), kThatOrder),
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
  const bool as_many = has->elements_per_sample() == value.spec.shape.elements_per_sample();
  if (!same_axes(*has, value.spec.shape))
    throw Error(
        ErrorCode::kUsage,
        format("its targets are {}, but those of {} are {}{}{}", ops::to_string(*has), model.name(),
               ops::to_string(value.spec.shape), as_many ? "; " : "", as_many ? kThatOrder : ""),
        name);
}

void check_labels(const Dataset& data, const std::string& name, const Model& model,
                  const Value& value) {
  if (value.spec.dtype == ops::DType::kFloat32) return check_targets(data, name, model, value);
  const ops::ValueSpec has{ops::DType::kInt64, data.labels()};
  const int64_t classes = label_classes(model);
  if (!same_axes(has.shape, value.spec.shape)) {
    const bool as_many = has.shape.elements_per_sample() == value.spec.shape.elements_per_sample();
    const bool one_hot = has.shape.elements_per_sample() == classes;
    throw Error(ErrorCode::kUsage,
                format("its labels are {}, but those of {} are {}{}", spec_text(has), model.name(),
                       spec_text(value.spec),
                       as_many   ? format("; {}", kThatOrder)
                       : one_hot ? "; where they are one-hot, save their .argmax(axis=1)"
                                 : ""),
                name);
  }
  const int64_t found = data.classes();
  if (found <= classes && (found == classes || !data.classes_are_all())) return;
  const Numbering numbering = data.numbering();
  const bool listed = numbering.what == "classes" && numbering.names.size() <= kMostListed;
  throw Error(
      ErrorCode::kUsage,
      format("it has {} classes, but {} gives {} scores{}{}", found, model.name(), classes,
             listed ? ": " : "", listed ? format("{}", fmt::join(numbering.names, ", ")) : ""),
      name);
}

// Whom the node picks from by input 1; 0 where it does not.
int64_t picked_from(const Model& model, const partitioner::Use& use) {
  const auto* gather = dynamic_cast<const ops::Gather*>(&model.op(use.node));
  if (gather == nullptr || use.input != 1) return 0;
  return gather->inputs()[0].spec.shape[gather->axis()];
}

// The least, also behind nodes that only give the value another shape.
int64_t least_extent(const Model& model, partitioner::ValueId value) {
  int64_t least = 0;
  for (const partitioner::Use& use : model.uses(value)) {
    const bool alias = use.input == 0 && model.op(use.node).aliases();
    const int64_t extent =
        alias ? least_extent(model, model.node(use.node).outputs[0]) : picked_from(model, use);
    if (extent > 0 && (least == 0 || extent < least)) least = extent;
  }
  return least;
}

template <class Number>
void check_indices_of(const ops::TensorView& numbers, std::span<const int64_t> rows, int64_t first,
                      int64_t extent, const std::string& origin) {
  const std::span all(numbers.as<Number>(), static_cast<size_t>(numbers.elements()));
  const auto odd = std::find_if(all.begin(), all.end(), [&](Number number) {
    return number < 0 || static_cast<int64_t>(number) >= extent;
  });
  if (odd == all.end()) return;
  const auto row = static_cast<size_t>(odd - all.begin()) / (all.size() / rows.size());
  throw Error(ErrorCode::kUsage,
              format("row {} has the number {}, but the model picks from {}: 0 to {}",
                     first + rows[row], *odd, extent, extent - 1),
              origin);
}

}  // namespace

std::vector<std::string> input_names(const Model& model) {
  std::vector<std::string> names;
  for (partitioner::ValueId id = 0; id < model.values(); ++id)
    if (model.value(id).role == Role::kInput) names.push_back(model.value(id).name);
  return names;
}

std::map<std::string, InputNeed, std::less<>> input_needs(const Model& model) {
  std::map<std::string, InputNeed, std::less<>> needs;
  for (partitioner::ValueId id = 0; id < model.values(); ++id)
    if (model.value(id).role == Role::kInput)
      needs[model.value(id).name] = {model.value(id).spec, least_extent(model, id)};
  return needs;
}

int64_t least_picked_from(const Model& model) {
  int64_t least = 0;
  for (const auto& [name, need] : input_needs(model))
    if (need.picks_from > 0 && (least == 0 || need.picks_from < least)) least = need.picks_from;
  return least;
}

void check_indices(const ops::TensorView& numbers, std::span<const int64_t> rows, int64_t first,
                   int64_t extent, const std::string& origin) {
  if (extent == 0 || rows.empty()) return;
  if (numbers.dtype == ops::DType::kInt64)
    check_indices_of<int64_t>(numbers, rows, first, extent, origin);
  if (numbers.dtype == ops::DType::kInt32)
    check_indices_of<int32_t>(numbers, rows, first, extent, origin);
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

OpenSplits open_splits(const DatasetFactory& open, const std::string& name,
                       const DataRequest& request, bool train, bool test) {
  OpenSplits splits;
  if (train) splits.train = open(name, Split::kTrain, request);
  if (test) splits.test = open(name, Split::kTest, request);
  for (const auto& data : {splits.train, splits.test})
    if (data != nullptr) check_fits(*data, name, *request.model);
  return splits;
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
