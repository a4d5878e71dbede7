// Where the batch lies in what is computed, and constants that a file has for a batch of its own.
#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "partitioner/onnx/free_batch.h"
#include "partitioner/onnx/importer.h"

namespace kerf::partitioner::onnx {
namespace {

using Ints = std::vector<int64_t>;

bool is_recurrence(const std::string& op) { return op == "LSTM" || op == "GRU" || op == "RNN"; }

// Whether all of the `count` pieces of so many bytes, between which others lie, are alike: a
// tensor seen as [outer, count, bytes].
bool are_alike(std::string_view bytes, size_t count, size_t piece) {
  for (size_t first = 0; first < bytes.size(); first += count * piece)
    for (size_t i = 1; i < count; ++i)
      if (bytes.substr(first + i * piece, piece) != bytes.substr(first, piece)) return false;
  return true;
}

int64_t product_of(const Ints& extents, size_t from, size_t to) {
  int64_t product = 1;
  for (size_t i = from; i < to; ++i) product *= extents[i];
  return product;
}

}  // namespace

std::optional<int64_t> of_samples(int64_t each, int64_t samples) {
  int64_t all = 0;
  if (__builtin_mul_overflow(each, samples, &all)) return std::nullopt;
  return all;
}

int64_t Importer::outer_of(ValueId value) const {
  const auto at = outer_.find(value);
  return at == outer_.end() ? 1 : at->second;
}

// What an operator computes has its samples where its operands have them; what reads its input with
// another shape leaves them where they are.
void Importer::place_batch(NodeId id) {
  const Model& model = result_.model;
  const Node& node = model.node(id);
  const auto shape_in = [&](ValueId value) { return model.value(value).spec.shape; };
  const bool alias = node.bound->aliases() && node.inputs[0] >= 0;
  for (const ValueId output : node.outputs) {
    const ops::Shape to = shape_in(output);
    if (!to.batched()) continue;
    std::optional<int64_t> outer;
    if (alias && shape_in(node.inputs[0]).batched()) {
      outer = outer_in(to, before_batch(shape_in(node.inputs[0]), outer_of(node.inputs[0])));
      if (!outer)
        refuse(format("it reads {} as {}, across its samples, for which N stands{}",
                      ops::to_string(shape_in(node.inputs[0])), ops::to_string(to),
                      way_out_of_batch()));
    }
    for (const ValueId input : node.inputs) {
      if (alias || input < 0) continue;
      const ops::Shape from = shape_in(input);
      if (!from.batched() || from[from.batch_axis()] != to[to.batch_axis()]) continue;
      if (outer && *outer != outer_of(input))
        refuse(
            format("it joins {} whose rows are of one sample after the other with such that are "
                   "not{}",
                   ops::to_string(from), way_out_of_batch()));
      outer = outer_of(input);
    }
    if (outer.value_or(1) != 1) outer_[output] = *outer;
  }
}

// The value that counts the samples of a node; -1 where none does.
ValueId Importer::batched_operand(const GraphNode& node) const {
  for (const std::string& input : node.inputs) {
    if (input.empty()) continue;
    const auto* id = std::get_if<ValueId>(&known(input));
    if (id != nullptr && result_.model.value(*id).spec.shape.batched()) return *id;
  }
  return -1;
}

// The attribute `shape` of a Reshape of a computed value.
Ints Importer::free_shape(const GraphNode& reshape, const std::vector<Affine>& wanted) const {
  const ValueId from = std::get<ValueId>(known(reshape.inputs[0]));
  try {
    return reshape_to(result_.model.value(from).spec.shape, outer_of(from), wanted, fixed_batch_);
  } catch (const Error& error) {
    throw Error(error.code(), error.message() + way_out_of_batch());
  }
}

// Constants of a file that fixes the batch may have a row for each of its samples: where these are
// alike, one is for all.
void Importer::free_constants(GraphNode& node) {
  if (!fixed_batch_) return;
  if (node.op == "Expand") return free_expanded(node);
  const ValueId samples = batched_operand(node);
  if (samples < 0) return;
  const ops::Shape shape = result_.model.value(samples).spec.shape;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i].empty() || !is_constant(node.inputs[i])) continue;
    const int rank = shape_of(node.inputs[i]).rank();
    RowsOf rows{.each = -shape[shape.batch_axis()], .outer = outer_of(samples)};
    if (is_recurrence(node.op) && i >= 5 && i <= 6) {
      rows.axis = ops::attribute_int(node.attributes, "layout", 0) != 0 ? 0 : 1;
    } else if (node.op == "Concat" && rank == shape.rank()) {
      rows.axis = shape.batch_axis();
    } else if (is_repeated(node.op, i)) {
      rows.axis = rank - (shape.rank() - shape.batch_axis());
      rows.repeated = true;
    }
    // The last two of a product's are of matrices, and are not repeated.
    const int last = node.op == "MatMul" ? rank - 2 : rank;
    if (rows.axis >= 0 && rows.axis < last)
      node.inputs[i] = with_free_rows(node, node.inputs[i], rows);
  }
}

// Of a constant to the batch, or of what has it to the file's.
void Importer::free_expanded(GraphNode& node) {
  const auto at = node.attributes.find("shape");
  if (at == node.attributes.end() || node.inputs.empty() || node.inputs[0].empty()) return;
  const ops::Shape from = shape_of(node.inputs[0]);
  Ints to = ops::attribute_ints(node.attributes, "shape", {});
  const int more = static_cast<int>(to.size()) - from.rank();
  if (from.batched()) {
    const int axis = from.batch_axis() + more;
    if (axis >= 0 &&
        to[static_cast<size_t>(axis)] == of_samples(-from[from.batch_axis()], *fixed_batch_))
      to[static_cast<size_t>(axis)] = 1;  // leaves what it has
    at->second = to;
    return;
  }
  const auto symbolic = std::find(to.begin(), to.end(), ops::kBatch);
  const auto axis = static_cast<int>(symbolic - to.begin()) - more;
  if (symbolic != to.end() && axis >= 0 && is_constant(node.inputs[0]))
    node.inputs[0] =
        with_free_rows(node, node.inputs[0], {.axis = axis, .each = 1, .repeated = true});
}

// It makes no other samples: of its sizes are left those of the other axes.
void Importer::leave_samples_out(GraphNode& resize) const {
  const auto found = resize.attributes.find("sizes");
  if (found == resize.attributes.end() || !is_computed(resize, 0)) return;
  const ops::Shape shape = shape_of(resize.inputs[0]);
  Ints sizes = ops::attribute_ints(resize.attributes, "sizes", {});
  Ints axes = resized_axes(resize, shape.rank());
  if (!shape.batched() || axes.size() != sizes.size() || resize.attributes.contains("roi")) return;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (ops::resolved_axis("Resize", axes[i], shape.rank()) != shape.batch_axis()) continue;
    const bool as_the_file =
        fixed_batch_ && sizes[i] == of_samples(-shape[shape.batch_axis()], *fixed_batch_);
    if (sizes[i] != ops::kBatch && !as_the_file)
      refuse(format("it makes {} of its samples: their number cannot change", sizes[i]));
    sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(i));
    axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i));
    break;
  }
  found->second = sizes;
  resize.attributes["axes"] = axes;
}

// The name of a constant with one row for every sample instead of the file's, or of N times one.
std::string Importer::with_free_rows(const GraphNode& node, const std::string& name,
                                     const RowsOf& rows) {
  const ops::Shape shape = shape_of(name);
  const Ints all(shape.begin(), shape.end());
  const auto axis = static_cast<size_t>(rows.axis);
  const int64_t extent = all[axis];
  if (rows.repeated && extent == 1) return name;
  if (extent != of_samples(rows.each, *fixed_batch_))
    return name;  // the operator says what it wants
  if (auto anew = expanded_anew(node, name, rows)) return *std::move(anew);
  // [..., outer, samples, inner, ...]
  Ints apart(all.begin(), all.begin() + rows.axis);
  const Ints split{rows.outer, *fixed_batch_, rows.each / rows.outer};
  apart.insert(apart.end(), split.begin(), split.end());
  apart.insert(apart.end(), all.begin() + rows.axis + 1, all.end());
  const auto size = static_cast<size_t>(product_of(all, axis + 1, all.size())) *
                    ops::size_of(spec_of(name).dtype);
  budget_.take(spec_of(name).bytes(0), 0);
  const std::string bytes = literal(name, Budget::kMostAtOnce).bytes;
  if (rows.repeated && are_alike(bytes, static_cast<size_t>(extent), size))
    return made_of(node, name, "Slice",
                   {{"axes", Ints{rows.axis}}, {"starts", Ints{0}}, {"ends", Ints{1}}});
  if (!are_alike(bytes, static_cast<size_t>(*fixed_batch_), static_cast<size_t>(split[2]) * size))
    refuse(format("{} is {}, with numbers for each of the {} samples of the file, which differ{}",
                  name, ops::to_string(shape), *fixed_batch_, way_out_of_batch()));
  std::string made = name;
  const auto add = [&](const char* op, ops::Attributes attributes) {
    made = made_of(node, made, op, std::move(attributes));
  };
  const auto place = rows.axis + 1;  // of the samples, once they are apart
  if (rows.each != 1) add("Reshape", {{"shape", apart}});
  const int64_t samples = rows.each != 1 ? place : rows.axis;
  if (*fixed_batch_ != 1)
    add("Slice", {{"axes", Ints{samples}}, {"starts", Ints{0}}, {"ends", Ints{1}}});
  Ints free = rows.each != 1 ? apart : all;
  free[static_cast<size_t>(samples)] = ops::kBatch;
  add("Expand", {{"shape", free}});
  if (rows.each == 1) return made;
  Ints together = all;
  together[axis] = -1;
  add("Reshape", {{"shape", together}});
  return made;
}

// Of one that the file repeats for its samples only, as a class token is: what it repeats stays a
// weight, and is repeated for any number of them.
std::optional<std::string> Importer::expanded_anew(const GraphNode& node, const std::string& name,
                                                   const RowsOf& rows) {
  const auto expanded = expanded_.find(name);
  if (expanded == expanded_.end() || rows.each != 1) return std::nullopt;
  const ops::Shape all = shape_of(name);
  const ops::Shape once = shape_of(expanded->second);
  const int at = rows.axis - (all.rank() - once.rank());
  if (at >= 0 && once[at] != 1) return std::nullopt;
  if (rows.repeated) {  // where that is all that it repeats
    for (int i = 0; i < all.rank(); ++i) {
      const int from = i - (all.rank() - once.rank());
      if (i != rows.axis && all[i] != (from < 0 ? 1 : once[from])) return std::nullopt;
    }
    return expanded->second;
  }
  Ints free(all.begin(), all.end());
  free[static_cast<size_t>(rows.axis)] = ops::kBatch;
  return made_of(node, expanded->second, "Expand", {{"shape", free}});
}

std::string Importer::made_of(const GraphNode& node, const std::string& input, const char* op,
                              ops::Attributes attributes) {
  std::string name = inner(node, format("{}.{}", input, op));
  if (known_.contains(name)) return name;  // read twice by this node
  readers_[name] = 1;
  add_newest({name, op, std::move(attributes), {input}, {name}}, ops::kNewestOpset);
  return name;
}

}  // namespace kerf::partitioner::onnx
