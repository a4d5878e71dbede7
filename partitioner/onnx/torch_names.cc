#include "partitioner/onnx/torch_names.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/error.h"

namespace kerf::partitioner::onnx {
namespace {

// By the end of a bias's name, what the weight of the product is called that it is added to.
constexpr std::pair<std::string_view, std::string_view> kOfBias[] = {
    {".in_proj_bias", ".in_proj_weight"},  // of queries, keys and values together
    {".bias", ".weight"}};

class TorchForms {
 public:
  explicit TorchForms(const Graph& graph) : graph_(graph) {}

  std::map<std::string, std::shared_ptr<const StoredForm>> find() {
    for (const GraphNode& node : graph_.nodes) {
      if (node.op == "Identity" && !node.inputs.empty() && !node.outputs.empty())
        copies_[node.outputs[0]] = node.inputs[0];
      if (node.op == "Add" && node.inputs.size() == 2)
        for (const size_t i : {size_t{0}, size_t{1}})
          if (is_stored(node.inputs[i])) added_.emplace(node.inputs[1 - i], node.inputs[i]);
      if (node.op == "InstanceNormalization") normalized_.insert(module_of(node.name));
      if ((node.op == "Mul" || node.op == "Add") && node.inputs.size() == 2)
        ++scaled_[{module_of(node.name), node.op}];
      if ((node.op == "MatMul" || node.op == "PRelu") && node.inputs.size() == 2 &&
          is_renamed(node, node.inputs[1]))
        if (const std::string module = module_of(node.name); !module.empty())
          products_[module].insert(node.inputs[1]);
    }
    for (const GraphNode& node : graph_.nodes) {
      if (node.op == "MatMul" && node.inputs.size() == 2) add_linear(node);
      if (node.op == "PRelu" && node.inputs.size() == 2) add_slopes(node);
      if ((node.op == "Mul" || node.op == "Add") && node.inputs.size() == 2) add_group_norm(node);
      if (node.op == "LSTM") add_cell(node, kLstmGates);
      if (node.op == "GRU") add_cell(node, kGruGates);
      if (node.op == "RNN") add_cell(node, kRnnGates);
    }
    return std::move(forms_);
  }

 private:
  // As an initializer, or an Identity of one.
  bool is_stored(const std::string& name) const {
    return graph_.initializers.contains(name) || copies_.contains(name);
  }

  static bool is_renamed(const GraphNode& node, const std::string& name) {
    return (!node.scope.empty() && name.starts_with("val_")) ||
           name.starts_with("onnx::" + node.op + "_");
  }

  // The shape of an initializer of this rank that the exporter renamed, or that an Identity gives
  // such a name; null of others.
  const ops::Shape* renamed(const GraphNode& node, size_t input, int rank) const {
    if (input >= node.inputs.size() || !is_renamed(node, node.inputs[input])) return nullptr;
    const ops::Shape* shape = shape_of(node.inputs[input]);
    return shape != nullptr && shape->rank() == rank ? shape : nullptr;
  }

  // Of an initializer, or of one that it is an Identity of; null of others.
  const ops::Shape* shape_of(const std::string& name) const {
    const auto copy = copies_.find(name);
    const auto found = graph_.initializers.find(copy == copies_.end() ? name : copy->second);
    return found == graph_.initializers.end() ? nullptr : &found->second.spec.shape;
  }

  // Unless another weight has the name.
  void add(const std::string& initializer, StoredForm form) {
    for (const StoredTensor& tensor : form.tensors)
      if (graph_.initializers.contains(tensor.name) || taken_.contains(tensor.name)) return;
    if (forms_.contains(initializer)) return;
    for (const StoredTensor& tensor : form.tensors) taken_.emplace(tensor.name, initializer);
    forms_.emplace(initializer, std::make_shared<const StoredForm>(std::move(form)));
  }

  // The one tensor of the call that the exporter computed it of; empty where it does not say so.
  std::string read_by_call(const GraphNode& node, size_t input) const {
    const auto computed = graph_.computed.find(node.inputs[input]);
    if (computed == graph_.computed.end() || !computed->second.only ||
        computed->second.tensors.size() != 1)
      return {};
    const size_t place = computed->second.tensors[0];
    const bool reads =
        std::find(node.call_reads.begin(), node.call_reads.end(), place) != node.call_reads.end();
    return reads ? graph_.torch[place].name : "";
  }

  // Of channels, with axes of 1 behind them.
  void add_slopes(const GraphNode& node) {
    if (!is_renamed(node, node.inputs[1])) return;
    const auto found = graph_.initializers.find(node.inputs[1]);
    if (found == graph_.initializers.end()) return;
    std::string name = read_by_call(node, 1);
    if (name.empty() && has_no_other_weight(node)) name = module_of(node.name) + ".weight";
    if (!name.empty()) add(node.inputs[1], stored_as(name, {found->second.spec.shape.elements()}));
  }

  // Scale or shift of a GroupNorm, which is written as an InstanceNormalization of groups before
  // them: of channels, with axes of 1 behind them.
  void add_group_norm(const GraphNode& node) {
    const ops::Shape* shape = shape_of(node.inputs[1]);
    if (!is_renamed(node, node.inputs[1]) || shape == nullptr || shape->rank() < 2 ||
        (*shape)[0] != shape->elements())
      return;
    std::string name = node.call.starts_with("group_norm") ? read_by_call(node, 1) : "";
    const std::string module = module_of(node.name);
    if (node.scope.empty() && !module.empty() && normalized_.contains(module) &&
        scaled_.at({module, node.op}) == 1 && has_no_weight(module + "."))
      name = module + (node.op == "Mul" ? ".weight" : ".bias");
    if (!name.empty()) add(node.inputs[1], stored_as(name, {(*shape)[0]}));
  }

  // As the call says, or after the bias that is added, or as the node says. Empty where none is
  // certain.
  std::string weight_of_linear(const GraphNode& product) const {
    if (std::string name = read_by_call(product, 1); !name.empty()) return name;
    if (const auto bias = added_.find(product.outputs[0]); bias != added_.end())
      for (const auto& [ending, weight] : kOfBias)
        if (bias->second.ends_with(ending))
          return bias->second.substr(0, bias->second.size() - ending.size()) + std::string(weight);
    if (!product.scope.empty())
      return product.scope_class.ends_with(".Linear") ? product.scope + ".weight" : "";
    return has_no_other_weight(product) ? module_of(product.name) + ".weight" : "";
  }

  // Others have several, of which this could be any. A list that is called as what it is in may be
  // meant by either.
  bool has_no_other_weight(const GraphNode& node) const {
    const std::string module = module_of(node.name);
    const auto products = products_.find(module);
    if (products == products_.end() || products->second.size() != 1) return false;
    std::string apart = node.name.substr(1, node.name.rfind('/') - 1);
    std::replace(apart.begin(), apart.end(), '/', '.');
    return has_no_weight(module + ".") && has_no_weight(apart + ".");
  }

  bool has_no_weight(const std::string& prefix) const {
    const auto next = graph_.initializers.lower_bound(prefix);
    const auto copy = copies_.lower_bound(prefix);
    return (next == graph_.initializers.end() || !next->first.starts_with(prefix)) &&
           (copy == copies_.end() || !copy->first.starts_with(prefix));
  }

  void add_linear(const GraphNode& node) {
    const ops::Shape* shape = renamed(node, 1, 2);
    if (shape == nullptr || node.outputs.empty()) return;
    const std::string weight = weight_of_linear(node);
    if (!weight.empty()) add(node.inputs[1], stored_turned(weight, *shape, {1, 0}));
  }

  // Layers above the first are called LSTM_1 and on; where the module is known otherwise, they
  // follow each other.
  int64_t layer_of(const GraphNode& node) {
    if (!node.scope.empty()) return layers_[node.scope]++;
    const size_t line = node.name.rfind(node.op + "_");
    if (line == std::string::npos) return 0;
    const char* const begin = node.name.data() + line + node.op.size() + 1;
    int64_t layer = 0;
    std::from_chars(begin, node.name.data() + node.name.size(), layer);
    return layer;
  }

  void add_cell(const GraphNode& node, std::span<const int64_t> gates) {
    if (node.scope.empty() && !node.name.starts_with('/')) return;
    const std::string module = node.scope.empty() ? module_of(node.name) : node.scope;
    const int64_t layer = layer_of(node);
    const auto add_weight = [&](size_t input, const char* name) {
      const ops::Shape* shape = renamed(node, input, 3);
      if (shape != nullptr && is_of(*shape, gates))
        add(node.inputs[input], stored_cell_weight(module, name, layer, *shape, gates));
    };
    add_weight(1, "weight_ih");
    add_weight(2, "weight_hh");
    if (const ops::Shape* shape = renamed(node, 3, 2);
        shape != nullptr && (*shape)[1] % 2 == 0 && is_of({(*shape)[0], (*shape)[1] / 2}, gates))
      add(node.inputs[3], stored_cell_bias(module, layer, *shape, gates));
  }

  static bool is_of(const ops::Shape& shape, std::span<const int64_t> gates) {
    return shape[0] <= 2 && shape.elements() > 0 && shape[1] % std::ssize(gates) == 0;
  }

  const Graph& graph_;
  std::map<std::string, std::shared_ptr<const StoredForm>> forms_;
  std::map<std::string, std::string> copies_;              // what an Identity is of
  std::map<std::string, std::string> added_;               // an initializer, by what it is added to
  std::map<std::string, std::set<std::string>> products_;  // weights that were renamed, by module
  std::set<std::string> normalized_;                       // modules with an InstanceNormalization
  std::map<std::pair<std::string, std::string>, int> scaled_;  // Muls and Adds, by module
  std::map<std::string, int64_t> layers_;                      // so far, by module
  std::map<std::string, std::string> taken_;                   // the initializer, by name in files
};

}  // namespace

std::map<std::string, std::shared_ptr<const StoredForm>> torch_forms(const Graph& graph) {
  return TorchForms(graph).find();
}

std::string module_of(const std::string& node_name) {
  if (!node_name.starts_with('/')) return {};
  std::vector<std::string> parts;
  size_t begin = 1;
  for (size_t end = node_name.find('/', begin); end != std::string::npos;
       end = node_name.find('/', begin)) {
    std::string part = node_name.substr(begin, end - begin);
    // What is in a list repeats its list's name.
    if (!parts.empty() && part.starts_with(parts.back() + "."))
      parts.back() = std::move(part);
    else
      parts.push_back(std::move(part));
    begin = end + 1;
  }
  return format("{}", fmt::join(parts, "."));
}

}  // namespace kerf::partitioner::onnx
