// Under which names and in which forms weights are kept, and what reads one of them twice.
#include <algorithm>
#include <numeric>
#include <utility>

#include "partitioner/onnx/importer.h"
#include "partitioner/onnx/weight_file.h"

namespace kerf::partitioner::onnx {
namespace {

using ops::DType;

constexpr const char* kMetadata = "__metadata__";  // of safetensors

bool names_metadata(const StoredForm& form) {
  return std::any_of(form.tensors.begin(), form.tensors.end(),
                     [](const StoredTensor& tensor) { return tensor.name == kMetadata; });
}

bool turns_over(const GraphNode& node, const ops::Shape& shape) {
  return node.op == "Transpose" && shape.rank() == 2 &&
         ops::attribute_ints(node.attributes, "perm", {1, 0}) == std::vector<int64_t>{1, 0};
}

// Of which of the file's axes each is.
std::vector<int> axes_in_file(const Fixed& fixed) {
  if (fixed.stored != nullptr && !fixed.stored->axes.empty()) return fixed.stored->axes;
  std::vector<int> axes(static_cast<size_t>(fixed.spec.shape.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

// A symmetric matrix that is turned over begins with the same numbers, and is another.
bool same_constant(const Fixed& a, const Fixed& b) {
  if (!(a.spec == b.spec) || axes_in_file(a) != axes_in_file(b)) return false;
  if (a.contents == b.contents) return a.contents != nullptr || a.initializer == b.initializer;
  return a.contents != nullptr && b.contents != nullptr &&
         a.contents->identity() == b.contents->identity();
}

}  // namespace

void Importer::count_readers() {
  for (const std::string& output : graph_.outputs) ++readers_[output];
  for (const GraphNode& node : graph_.nodes)
    for (const std::string& input : node.inputs) ++readers_[input];
  left_ = readers_;
}

// Exporters give equal tensors one initializer, and the others' names to Identities of it: what
// began alike need not stay so. One that rows are picked of and that is multiplied with, too, is
// tied.
void Importer::name_copy(const GraphNode& node, Fixed& fixed) {
  const std::string& input = node.inputs[0];
  const std::string& output = node.outputs[0];
  const auto is_weight = [&](const std::string& name) {
    return weights_.operands.contains(name) || weights_.shifts.contains(name);
  };
  if (node.op != "Identity" || !may_be_weight(fixed) || readers_.at(input) == 1) return;
  if (!is_weight(input) && !statistics_.contains(input) && !statistics_.contains(output)) return;
  const bool tied =
      is_weight(output) && weights_.tables.contains(input) != weights_.tables.contains(output);
  if (tied) return;
  if (is_in_file(fixed.name)) copies_.insert(output);
  fixed.name = output;
  fixed.of.clear();
  const auto form = forms_.find(output);
  fixed.stored = form == forms_.end() ? nullptr : form->second;
}

// The weight of the file that a constant node's results are made of, if it is one; one number
// beside it only scales it.
const std::string* Importer::weight_in(const GraphNode& node) const {
  const std::string* found = nullptr;
  const auto fixed_at = [&](const std::string& name) { return std::get_if<Fixed>(&known(name)); };
  for (const std::string& input : node.inputs) {
    const Fixed* fixed = input.empty() ? nullptr : fixed_at(input);
    if (fixed == nullptr || fixed->spec.shape.elements() < 2 || !may_be_weight(*fixed)) continue;
    if (!is_in_file(fixed->origin()) ||
        (found != nullptr && fixed_at(*found)->origin() != fixed->origin()))
      return nullptr;
    found = &input;
  }
  return found;
}

std::shared_ptr<const StoredForm> Importer::stored_viewed(const Fixed& from) {
  if (!is_in_file(from.name)) return nullptr;
  if (from.stored == nullptr)
    return std::make_shared<const StoredForm>(stored_as(from.name, from.spec.shape));
  const bool in_order = from.stored->axes.empty() && from.stored->rows.size() == 1;
  if (!in_order) note(format("files of weights have {} in another shape", from.name));
  return in_order ? from.stored : nullptr;
}

std::shared_ptr<const StoredForm> Importer::stored_turned_of(const Fixed& from,
                                                             const GraphNode& transpose) {
  if (!is_in_file(from.name)) return nullptr;
  const ops::Shape& shape = from.spec.shape;
  std::vector<int64_t> order = ops::attribute_ints(transpose.attributes, "perm", {});
  for (int64_t i = shape.rank() - 1; i >= 0 && std::ssize(order) < shape.rank(); --i)
    order.push_back(i);
  std::vector<int> axes;
  ops::Shape result = shape;
  for (int i = 0; i < shape.rank(); ++i) {
    const auto axis = static_cast<int>(order[static_cast<size_t>(i)]);
    result[i] = shape[axis];
    const bool again = from.stored != nullptr && !from.stored->axes.empty();
    axes.push_back(again ? from.stored->axes[static_cast<size_t>(axis)] : axis);
  }
  if (from.stored == nullptr)
    return std::make_shared<const StoredForm>(stored_turned(from.name, result, axes));
  if (!from.stored->axes.empty())
    return std::make_shared<const StoredForm>(
        stored_turned(from.stored->tensors[0].name, result, axes));
  note(format("files of weights have {} in another shape", from.name));
  return nullptr;
}

// A weight that is computed with before it is one stays that of the file, by name; where it becomes
// several, they are named after it.
Fixed Importer::made_of_weight(const GraphNode& node, size_t output, Fixed made) {
  const std::string* read = weight_in(node);
  if (read == nullptr || !may_be_weight(made)) return made;
  const Fixed& weight = std::get<Fixed>(known(*read));
  made.of = weight.origin();
  if (!is_placed(made.name, made) && !fits(made, options_.train)) return made;
  const bool alone = readers_[weight.name] == 1 && readers_[*read] == 1;
  if (node.op == "Transpose") {
    made.name = weight.name;
    made.stored = stored_turned_of(weight, node);
    kept_turned_.push_back(format(
        "{} is {} with its axes turned over{}", weight.name, alone ? "kept" : "read as it is and",
        made.stored == nullptr ? "" : "; files of weights have it as this file"));
    return made;
  }
  const bool stays = alone && node.outputs.size() == 1 && weight.name == made.of;
  made.name = stays ? weight.name : format("{} as {}", made.of, node.outputs[output]);
  made.told = format("{} is kept as {} ({}) makes it{}", made.of, node.name, node.op,
                     stays ? "" : format(", and named {}", made.name));
  return made;
}

// A product with a weight that is turned over, and read as it is elsewhere: the two stay tied.
bool Importer::add_tied_product(const GraphNode& node) {
  if ((node.op != "MatMul" && node.op != "Gemm") || node.inputs.size() < 2) return false;
  const auto turned = turned_.find(node.inputs[1]);
  if (turned == turned_.end()) return false;
  const auto* weight = std::get_if<Fixed>(&known(turned->second));
  const auto* x = std::get_if<ValueId>(&known(node.inputs[0]));
  if (weight == nullptr || x == nullptr || readers_[weight->name] < 2) return false;
  if (node.op == "Gemm") {
    GraphNode gemm = node;
    gemm.inputs[1] = turned->second;
    gemm.attributes["transB"] =
        int64_t{ops::attribute_int(node.attributes, "transB", 0) != 0 ? 0 : 1};
    add_node(std::move(gemm));
    return true;
  }
  const ops::Shape shape = result_.model.value(*x).spec.shape;
  if (shape.rank() < 2 || shape[0] >= 0) return false;
  const ops::Attributes as_stored{{"transB", int64_t{1}}};
  if (shape.rank() == 2) {
    add_node({node.name, "Gemm", as_stored, {node.inputs[0], turned->second}, node.outputs});
    return true;
  }
  const std::string rows = inner(node, "rows");
  const std::string product = inner(node, "of_rows");
  std::vector<int64_t> back;
  for (const int64_t extent : shape) back.push_back(extent < 0 ? -1 : extent);
  const std::vector<int64_t> matrix{-1, back.back()};
  back.back() = weight->spec.shape[0];
  add_node({rows, "Reshape", {{"shape", matrix}}, {node.inputs[0]}, {rows}});
  add_node({product, "Gemm", as_stored, {rows, turned->second}, {product}});
  add_node({node.name, "Reshape", {{"shape", back}}, {product}, node.outputs});
  return true;
}

void Importer::remember_read(const GraphNode& node) {
  if (node.inputs[0].empty()) return;
  const auto* fixed = std::get_if<Fixed>(&known(node.inputs[0]));
  if (fixed == nullptr || !may_be_weight(*fixed)) return;
  const bool turned = turns_over(node, fixed->spec.shape);
  if (!turned && node.op != "Expand") return;
  (turned ? turned_ : expanded_)[node.outputs[0]] = node.inputs[0];
  held_.insert(node.inputs[0]);
}

bool Importer::turn_anew(const GraphNode& node) {
  if (node.inputs[0].empty()) return false;
  const auto* fixed = std::get_if<Fixed>(&known(node.inputs[0]));
  if (fixed == nullptr || fixed->contents != nullptr || !may_be_weight(*fixed) ||
      fixed->initializer.kind == ops::Initializer::Kind::kConstant ||
      !turns_over(node, fixed->spec.shape))
    return false;
  Fixed turned = *fixed;
  turned.name = node.outputs[0];
  turned.spec.shape = {fixed->spec.shape[1], fixed->spec.shape[0]};
  set(node.outputs[0], made_of_weight(node, 0, std::move(turned)));
  remember_read(node);
  return true;
}

// By files of weights: the exporter gave it its name, and it is no weight in another form, or the
// program did not save it.
bool Importer::may_be_lacked(const Fixed& fixed) const {
  const std::string& origin = fixed.origin();
  const auto form = forms_.find(origin);
  if (form != forms_.end() && form->second != nullptr) return false;
  if (graph_.torch.empty()) return graph_.by_torch && !is_torch_name(origin);
  const auto place = torch_places_.find(origin);
  return place == torch_places_.end() || !graph_.torch[place->second].saved;
}

ValueId Importer::add_fixed(const std::string& name, const Fixed& fixed, bool may_train) {
  const bool state = states_.contains(name);
  const bool trained = is_trained(name, fixed) && may_train;
  // What a file of weights would have is no constant of the model.
  const bool stored = (is_in_file(fixed.name) || fixed.stored != nullptr) &&
                      (may_be_weight(fixed) || statistics_.contains(name));
  if (fixed.name == kMetadata || (fixed.stored != nullptr && names_metadata(*fixed.stored)))
    refuse(format("a weight is called {}, which files of weights cannot have: give it another name",
                  kMetadata));
  if (!state && !trained && !stored && fixed.spec.bytes(0) <= kMostConstant)
    return result_.model.add_constant(fixed.name, literal_of(fixed, kMostConstant));
  const ValueId id = result_.model.add_parameter(fixed.name, fixed.spec, fixed.initializer,
                                                 state     ? Role::kState
                                                 : trained ? Role::kParameter
                                                           : Role::kFrozen);
  if (fixed.contents != nullptr) {
    result_.model.set_contents(id, fixed.contents, !state && !trained && may_be_lacked(fixed));
  } else if (fixed.spec.dtype != DType::kFloat32) {  // initializers make float32
    budget_.take(fixed.spec.bytes(0), 0);
    result_.model.set_contents(
        id, contents_of(literal_of(fixed, Budget::kMostAtOnce).bytes, fixed.spec.dtype));
  }
  result_.model.set_stored(id, fixed.stored);
  if (fixed.stored != nullptr && fixed.stored->tensors[0].name != fixed.name)
    renamed_.push_back(
        format("{} is {} in files of weights", fixed.name, fixed.stored->tensors[0].name));
  return id;
}

ValueId Importer::add_fixed_once(const std::string& name, Fixed fixed) {
  const auto found = in_model_.find(fixed.name);
  if (!fixed.told.empty()) note(fixed.told);
  if (found != in_model_.end() && same_constant(found->second.fixed, fixed))
    return found->second.id;
  bool may_train = true;
  if (found != in_model_.end()) {
    const bool trained = result_.model.value(found->second.id).role == Role::kParameter;
    const auto refuse_trained = [&] {
      refuse(format("{} is read in two ways, as {} and as {} makes it, and trained: freeze it",
                    found->first, ops::to_string(found->second.fixed.spec.shape), name));
    };
    if (trained && !options_.loss.empty()) refuse_trained();
    may_train = !trained;
    if (fixed.of.empty()) fixed.of = fixed.name;
    if (fixed.stored == nullptr) fixed.stored = stored_viewed(fixed);
    fixed.name = format("{} as {}", fixed.name, name);
    const auto again = in_model_.find(fixed.name);
    if (again != in_model_.end()) return again->second.id;
    // One tensor of a file of weights, of which that has the numbers of the first.
    if (fixed.stored != nullptr && !options_.loss.empty() && is_trained(name, fixed))
      refuse_trained();
  }
  const ValueId id = add_fixed(name, fixed, may_train);
  in_model_[fixed.name] = {id, fixed};
  return id;
}

}  // namespace kerf::partitioner::onnx
