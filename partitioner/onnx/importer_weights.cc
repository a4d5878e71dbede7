// Which constants are weights, under which names, and what reads one of them in two ways.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "ops/name_pattern.h"
#include "partitioner/onnx/importer.h"
#include "partitioner/onnx/weight_file.h"

namespace kerf::partitioner::onnx {
namespace {

using ops::DType;

constexpr size_t kPieceOfMask = size_t{64} << 10;  // numbers
constexpr const char* kMetadata = "__metadata__";  // of safetensors
constexpr float kHides = -1e4F;                    // this and less leaves nothing of a score

// The numbers from this one on, some.
std::vector<float> piece_of(const Fixed& fixed, size_t first, Budget& budget) {
  const auto count = static_cast<size_t>(fixed.spec.shape.elements());
  std::vector<float> piece(std::min(kPieceOfMask, count - first));
  budget.look_at(piece.size() * sizeof(float));
  fixed.contents->read(first * sizeof(float), std::as_writable_bytes(std::span(piece)));
  return piece;
}

// What hides some of the numbers that it is added to or multiplied with: of zeros, ones and large
// negative numbers, and not of one of zero and one only.
bool is_mask(const Fixed& fixed, Budget& budget) {
  if (fixed.contents == nullptr) return false;
  const auto count = static_cast<size_t>(fixed.spec.shape.elements());
  bool zeros = false;
  bool ones = false;
  bool hides = false;
  for (size_t first = 0; first < count; first += kPieceOfMask) {
    const std::vector<float> piece = piece_of(fixed, first, budget);
    for (const float number : piece) {
      zeros = zeros || number == 0;
      ones = ones || number == 1;
      hides = hides || number <= kHides;
      if (number != 0 && number != 1 && !(number <= kHides)) return false;
    }
  }
  return hides || (zeros && ones);
}

// Sines and cosines of positions, which programs have as buffers: from -1 to 1, of which those of
// position 0, the first row, are 0 and 1 only.
bool are_angles(const Fixed& fixed, Budget& budget) {
  const int rank = fixed.spec.shape.rank();
  if (fixed.contents == nullptr || rank < 2) return false;
  const auto count = static_cast<size_t>(fixed.spec.shape.elements());
  const auto row = static_cast<size_t>(fixed.spec.shape[rank - 1]);
  if (row < 2 || count <= row) return false;
  bool others = false;
  for (size_t first = 0; first < count; first += kPieceOfMask) {
    const std::vector<float> piece = piece_of(fixed, first, budget);
    for (size_t i = 0; i < piece.size(); ++i) {
      const bool whole = piece[i] == 0 || piece[i] == 1;
      if (!(std::abs(piece[i]) <= 1) || (first + i < row && !whole)) return false;
      others = others || !whole;
    }
  }
  return others;
}

bool names_metadata(const StoredForm& form) {
  return std::any_of(form.tensors.begin(), form.tensors.end(),
                     [](const StoredTensor& tensor) { return tensor.name == kMetadata; });
}

const std::string& origin_of(const Fixed& fixed) {
  return fixed.of.empty() ? fixed.name : fixed.of;
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

// By what it is, wherever it stands. One number is a weight in the place of one only, as the bias
// of a layer with one output is, or where the file says that it is a module's: else it may be any
// number of a formula.
bool Importer::may_be_weight(const Fixed& fixed) const {
  const int64_t numbers = fixed.spec.shape.elements();
  if (fixed.spec.dtype != DType::kFloat32 || numbers == 0) return false;
  if (numbers > 1) return true;
  const bool begins_anew =
      fixed.contents == nullptr && fixed.initializer.kind != ops::Initializer::Kind::kConstant;
  if (begins_anew) return true;  // as a head has it
  const std::string& origin = origin_of(fixed);
  if (!graph_.torch.empty() && parameter_in_torch(fixed).value_or(false)) return true;
  if (graph_.torch.empty() && graph_.by_torch && is_torch_name(origin)) return true;
  return fixed.spec.shape.rank() > 0 &&
         (weights_.operands.contains(fixed.name) || weights_.operands.contains(origin));
}

// Of a name that the file has: names of what weights are made of stand for it, too. Where the file
// says what was a parameter in the program, that goes before what the place says.
bool Importer::is_placed(const std::string& name, const Fixed& fixed) {
  const auto& [operands, shifts, tables, joined, beside, literals] = weights_;
  const auto in = [&](const std::set<std::string>& places) {
    return places.contains(name) || places.contains(origin_of(fixed));
  };
  if (!graph_.torch.empty()) {
    const auto was = parameter_in_torch(fixed);
    if (!was) return in(operands);
    if (!*was || in(operands) || in(shifts)) return *was;
    return (in(joined) || in(beside)) && !is_picked(fixed);
  }
  if (graph_.by_torch && in(literals)) return false;  // its weights are initializers
  if (in(operands)) return true;
  if (!in(shifts) && !(in(joined) && is_torch_name(origin_of(fixed)))) return false;
  return !is_mask(fixed, budget_) && !are_angles(fixed, budget_);
}

// Whether it was a parameter, or was computed of one; nothing where it is not said.
std::optional<bool> Importer::parameter_in_torch(const Fixed& fixed) const {
  std::vector<std::string> names{fixed.name, origin_of(fixed)};
  if (fixed.stored != nullptr)
    for (const StoredTensor& each : fixed.stored->tensors) names.push_back(each.name);
  std::optional<bool> was;
  const auto say = [&](size_t place) {
    was = was.value_or(false) || graph_.torch[place].parameter;
  };
  for (const std::string& name : names) {
    if (const auto found = torch_places_.find(name); found != torch_places_.end())
      say(found->second);
    if (const auto computed = graph_.computed.find(name); computed != graph_.computed.end()) {
      was = was.value_or(false);
      for (const size_t each : computed->second.tensors) say(each);
    }
  }
  return was;
}

// Whether the exporter computed it of more than a weight, as it picks rows of a table: numbers that
// were one in the program may be several.
bool Importer::is_picked(const Fixed& fixed) const {
  const auto computed = graph_.computed.find(origin_of(fixed));
  return computed != graph_.computed.end() && !computed->second.only;
}

// Not made by an exporter, as those of constants and of what it computed are.
bool Importer::is_torch_name(const std::string& name) const {
  if (!is_in_file(name) || name.find_first_of(":/ ") != std::string::npos) return false;
  const bool dotted = name.find('.') != std::string::npos;
  return !name.starts_with("val_") && !name.starts_with('_') &&
         name.find("._") == std::string::npos && name.find("lifted_tensor") == std::string::npos &&
         (dotted || (says_modules_ && name.find_first_not_of("0123456789") != std::string::npos));
}

bool Importer::fits(const Fixed& fixed, const std::vector<std::string>& patterns) {
  std::vector<std::string> names{fixed.name, origin_of(fixed)};
  if (fixed.stored != nullptr)
    for (const StoredTensor& each : fixed.stored->tensors) names.push_back(each.name);
  bool any = false;
  for (const std::string& pattern : patterns) {
    const bool one = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return ops::fits_pattern(name, pattern);
    });
    if (one) fitting_.insert(pattern);
    any = any || one;
  }
  return any;
}

bool Importer::is_trained(const std::string& name, const Fixed& fixed) {
  const bool frozen = fits(fixed, options_.freeze);
  const bool asked = fits(fixed, options_.train);
  if (fixed.spec.dtype != DType::kFloat32 || states_.contains(name) || frozen) return false;
  return asked || (may_be_weight(fixed) && is_placed(name, fixed));
}

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
    if (!is_in_file(origin_of(*fixed)) ||
        (found != nullptr && origin_of(*fixed_at(*found)) != origin_of(*fixed)))
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
  made.of = origin_of(weight);
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
  const std::string& origin = origin_of(fixed);
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
