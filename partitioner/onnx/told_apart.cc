#include "partitioner/onnx/told_apart.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "partitioner/onnx/weight_file.h"
#include "runtime/format.h"

namespace kerf::partitioner::onnx {
namespace {

constexpr size_t kMostRepeated = size_t{64} << 20;  // bytes, of all together

// A place where a node of a call has a tensor.
struct Place {
  GraphNode* node;
  size_t input;
};

struct Call {
  std::vector<Place> foreign;  // that have a tensor of the program that the call does not read
  std::vector<size_t> absent;  // tensors that it reads, and none of its nodes has
  bool in_order = true;        // each of `foreign` is the one of `absent` with its number
  bool by_place = false;       // that is certain, also of a buffer that is read as a parameter
};

// How the nodes of a call have its tensors.
enum class Order : uint8_t { kOfCall, kFirstIsLast, kUnknown };

// Of more than one node. `call` is as "addcmul_1".
Order order_of(std::string_view call) {
  static const std::map<std::string_view, Order> kOrders{
      {"linear", Order::kOfCall},           {"convolution", Order::kOfCall},
      {"conv1d", Order::kOfCall},           {"conv2d", Order::kOfCall},
      {"conv3d", Order::kOfCall},           {"conv_transpose1d", Order::kOfCall},
      {"conv_transpose2d", Order::kOfCall}, {"conv_transpose3d", Order::kOfCall},
      {"layer_norm", Order::kOfCall},       {"native_layer_norm", Order::kOfCall},
      {"group_norm", Order::kOfCall},       {"native_group_norm", Order::kOfCall},
      {"instance_norm", Order::kOfCall},    {"addmm", Order::kFirstIsLast},
      {"addmv", Order::kFirstIsLast},       {"addbmm", Order::kFirstIsLast},
      {"baddbmm", Order::kFirstIsLast},     {"addcmul", Order::kFirstIsLast},
      {"addcdiv", Order::kFirstIsLast},
  };
  const size_t line = call.rfind('_');
  if (line != std::string_view::npos &&
      call.find_first_not_of("0123456789", line + 1) == std::string_view::npos)
    call = call.substr(0, line);
  const auto known = kOrders.find(call);
  return known == kOrders.end() ? Order::kUnknown : known->second;
}

// Puts what PyTorch's call has first, which the last node adds, before the others. False where it
// is not certain which that is: it may be scaled before.
bool put_last_first(std::vector<Place>& places, const GraphNode& last) {
  const auto adds = [&](const Place& each) {
    return each.node == &last && (last.op == "Add" || (last.op == "Gemm" && each.input == 2));
  };
  if (std::count_if(places.begin(), places.end(), adds) != 1) return false;
  std::stable_partition(places.begin(), places.end(), adds);
  return true;
}

class Teller {
 public:
  explicit Teller(Graph& graph) : graph_(graph) {
    for (size_t i = 0; i < graph.torch.size(); ++i) places_.emplace(graph.torch[i].name, i);
  }

  int tell() {
    std::map<std::string, std::vector<GraphNode*>> calls;
    for (GraphNode& node : graph_.nodes)
      if (!node.call.empty() && !node.call_reads.empty()) calls[node.call].push_back(&node);
    for (const auto& [name, nodes] : calls) {
      restore_bias(nodes);
      rename(is_norm(nodes) ? norm_of(*nodes.front()) : call_of(nodes));
    }
    drop_unread();
    return renamed_;
  }

 private:
  // The tensors of the program that an initializer is, or was computed of.
  const std::set<size_t>& tensors_of(const std::string& name) {
    static const std::set<size_t> kNone;
    if (const auto found = tensors_.find(name); found != tensors_.end()) return found->second;
    if (!graph_.initializers.contains(name)) return kNone;
    if (const auto place = places_.find(name); place != places_.end())
      return tensors_[name] = {place->second};
    const auto computed = graph_.computed.find(name);
    if (computed == graph_.computed.end() || !computed->second.only) return kNone;
    const std::vector<size_t>& tensors = computed->second.tensors;
    return tensors_[name] = std::set<size_t>(tensors.begin(), tensors.end());
  }

  // What both have, in the time that the smaller takes.
  static std::vector<size_t> in_both(const std::set<size_t>& a, const std::set<size_t>& b) {
    const auto& [fewer, more] = a.size() < b.size() ? std::tie(a, b) : std::tie(b, a);
    std::vector<size_t> found;
    for (const size_t each : fewer)
      if (more.contains(each)) found.push_back(each);
    return found;
  }

  // Of a product or convolution that lacks a bias: how many numbers that would be; 0 of others.
  int64_t units_of(const GraphNode& node) const {
    if (node.inputs.size() != 2 || graph_.initializers.contains(node.inputs[0])) return 0;
    const auto weight = graph_.initializers.find(node.inputs[1]);
    if (weight == graph_.initializers.end() || weight->second.spec.dtype != ops::DType::kFloat32)
      return 0;
    const ops::Shape& shape = weight->second.spec.shape;
    if (node.op == "Gemm" && node.call.starts_with("linear") && shape.rank() == 2)
      return shape[ops::attribute_int(node.attributes, "transB", 0) != 0 ? 0 : 1];
    if (!node.call.starts_with("conv") || shape.rank() < 3) return 0;
    if (node.op == "Conv") return shape[0];
    const int64_t groups = ops::attribute_int(node.attributes, "group", 1);
    int64_t units = 0;
    const bool counted = !__builtin_mul_overflow(shape[1], groups, &units);
    return node.op == "ConvTranspose" && counted ? units : 0;
  }

  // Exporters leave one out that is zeros. Of more than all together may have, the file need not
  // have any bytes: they stay lost.
  void restore_bias(const std::vector<GraphNode*>& nodes) {
    GraphNode& node = *nodes.front();
    const int64_t units = nodes.size() == 1 ? units_of(node) : 0;
    if (units < 1 || node.call_reads.size() != 2 || !graph_.torch[node.call_reads[1]].parameter)
      return;
    const std::string& name = graph_.torch[node.call_reads[1]].name;
    if (graph_.initializers.contains(name) ||
        static_cast<size_t>(units) > zeros_left_ / sizeof(float))
      return;
    zeros_left_ -= static_cast<size_t>(units) * sizeof(float);
    const ops::ValueSpec spec{ops::DType::kFloat32, {units}};
    graph_.initializers[name] = {name, spec, spec.dtype,
                                 contents_of(std::string(spec.bytes(0), '\0'), spec.dtype)};
    node.inputs.push_back(name);
  }

  // Of a batch normalization whose call has scale, shift, mean and variance, of which each input is
  // one as it stands: in PyTorch's order, which is ONNX's.
  bool is_norm(const std::vector<GraphNode*>& nodes) {
    const GraphNode& node = *nodes.front();
    if (nodes.size() != 1 || node.op != "BatchNormalization" || node.inputs.size() != 5 ||
        node.call_reads.size() != 4)
      return false;
    for (size_t i = 0; i < 4; ++i)
      if (!places_.contains(node.inputs[i + 1]) || tensors_of(node.inputs[i + 1]).size() != 1 ||
          graph_.torch[node.call_reads[i]].parameter != (i < 2))
        return false;
    return true;
  }

  Call norm_of(GraphNode& node) {
    Call call;
    call.by_place = true;
    for (size_t i = 0; i < 4; ++i) {
      if (*tensors_of(node.inputs[i + 1]).begin() == node.call_reads[i]) continue;
      call.foreign.push_back({&node, i + 1});
      call.absent.push_back(node.call_reads[i]);
    }
    return call;
  }

  Call call_of(const std::vector<GraphNode*>& nodes) {
    const std::vector<size_t>& reads = nodes.front()->call_reads;
    const std::set<size_t> all(reads.begin(), reads.end());
    std::set<size_t> absent = all;
    std::map<std::string, bool> are_foreign;  // by name, whether it is one tensor, and of others
    Call call;
    for (GraphNode* node : nodes)
      for (size_t i = 0; i < node->inputs.size(); ++i) {
        const auto [foreign, added] = are_foreign.emplace(node->inputs[i], false);
        if (added) {
          const std::set<size_t>& tensors = tensors_of(node->inputs[i]);
          const std::vector<size_t> own = in_both(tensors, all);
          for (const size_t each : own) absent.erase(each);
          foreign->second = own.empty() && tensors.size() == 1;
        }
        if (foreign->second) call.foreign.push_back({node, i});
      }
    for (const size_t each : reads)
      if (absent.contains(each)) call.absent.push_back(each);
    if (call.foreign.size() > 1) call.in_order = put_in_order(nodes, call.foreign);
    return call;
  }

  // Whether the places could be put in the order in which the call has them.
  static bool put_in_order(const std::vector<GraphNode*>& nodes, std::vector<Place>& places) {
    const Order order = order_of(nodes.front()->call);
    if (order == Order::kFirstIsLast) return put_last_first(places, *nodes.back());
    return order == Order::kOfCall || nodes.size() == 1;
  }

  // In their order, where that is known and there are as many of them. What else a node reads has
  // been computed with what nothing reads, as a batch normalisation that is folded into a
  // convolution is.
  void rename(const Call& call) {
    bool alike = call.in_order && call.foreign.size() == call.absent.size();
    for (size_t i = 0; alike && !call.by_place && i < call.foreign.size(); ++i)
      alike = graph_.torch[*tensors_of(name_of(call.foreign[i])).begin()].parameter ==
              graph_.torch[call.absent[i]].parameter;
    if (!alike && !call.absent.empty())
      for (const Place& each : call.foreign) graph_.doubtful.insert(name_of(each));
    if (!alike)
      for (const size_t each : call.absent) graph_.lost.insert(graph_.torch[each].name);
    if (!alike) return;
    for (size_t i = 0; i < call.foreign.size(); ++i) {
      std::string& input = call.foreign[i].node->inputs[call.foreign[i].input];
      const bool computed = graph_.computed.contains(input);
      const std::string name = computed
                                   ? format("{} of {}", input, graph_.torch[call.absent[i]].name)
                                   : graph_.torch[call.absent[i]].name;
      Stored copy = graph_.initializers.at(input);
      copy.name = name;
      const auto contents = copy.contents;
      const auto [made, added] = graph_.initializers.emplace(name, std::move(copy));
      if (made->second.contents != contents) {  // the file has another of that name
        graph_.doubtful.insert(input);
        continue;
      }
      renamed_ += added ? 1 : 0;
      if (computed) graph_.computed[name] = {{call.absent[i]}, true};
      before_.insert(std::exchange(input, name));
    }
  }

  static const std::string& name_of(const Place& place) { return place.node->inputs[place.input]; }

  void drop_unread() {
    std::set<std::string> read(graph_.outputs.begin(), graph_.outputs.end());
    for (const GraphNode& node : graph_.nodes) read.insert(node.inputs.begin(), node.inputs.end());
    for (const std::string& name : before_)
      if (!read.contains(name)) graph_.initializers.erase(name);
  }

  Graph& graph_;
  std::map<std::string, size_t> places_;
  std::map<std::string, std::set<size_t>> tensors_;  // by initializers, which only become more
  std::set<std::string> before_;                     // names that were read instead
  size_t zeros_left_ = kMostRepeated;
  int renamed_ = 0;
};

bool is_expanded_name(const std::string& name) {
  constexpr std::string_view kExpand = "expand";
  if (!name.starts_with(kExpand)) return false;
  return name.size() == kExpand.size() ||
         (name[kExpand.size()] == '_' &&
          name.find_first_not_of("0123456789", kExpand.size() + 1) == std::string::npos);
}

// Whether its slices along an axis between the first and the last are alike: the tensor may have
// been repeated along that, too.
bool is_repeated_within(const ops::Shape& shape, const std::string& row) {
  size_t slice = sizeof(float) * static_cast<size_t>(shape[shape.rank() - 1]);
  for (int axis = shape.rank() - 2; axis > 0; --axis) {
    const size_t whole = slice * static_cast<size_t>(shape[axis]);
    bool differ = shape[axis] == 1;
    for (size_t i = slice; !differ && i < row.size(); ++i)
      differ = i % whole >= slice && row[i] != row[i - slice];
    if (!differ) return true;
    slice = whole;
  }
  return false;
}

// Nothing where its rows differ.
std::string one_row(const Stored& stored) {
  const auto rows = static_cast<size_t>(stored.spec.shape[0]);
  const std::string bytes =
      literal_of(stored.name, stored.spec, *stored.contents, kMostRepeated).bytes;
  const size_t size = bytes.size() / rows;
  for (size_t row = 1; row < rows; ++row)
    if (std::memcmp(bytes.data() + row * size, bytes.data(), size) != 0) return {};
  return bytes.substr(0, size);
}

}  // namespace

void tell_apart(Graph& graph, std::vector<std::string>& notes) {
  if (graph.torch.empty()) return;
  const int renamed = Teller(graph).tell();
  if (renamed > 0)
    notes.push_back(
        format("{} equal to others when the file was written, which has them once: each is a "
               "weight of its own here, by its name",
               renamed == 1 ? "1 tensor was" : format("{} were", plural(renamed, "tensor"))));
}

// Not a tensor of one axis, which the program has in another shape than a row of [N, C].
void repeat_here(Graph& graph) {
  if (graph.inputs.empty() || graph.inputs[0].shape.empty()) return;
  const int64_t batch = graph.inputs[0].shape[0].extent;
  const std::set<std::string> taken = names_of(graph);
  size_t left = kMostRepeated;
  std::vector<GraphNode> nodes;
  for (const auto& [name, computed] : graph.computed) {
    const auto found = graph.initializers.find(name);
    if (found == graph.initializers.end() || !is_expanded_name(name) || !computed.only ||
        computed.tensors.size() != 1)
      continue;
    const Stored& stored = found->second;
    const std::string& token = graph.torch[computed.tensors[0]].name;
    if (batch < 1 || stored.spec.shape.rank() < 3 || stored.spec.shape[0] != batch ||
        stored.contents == nullptr || stored.spec.dtype != ops::DType::kFloat32 ||
        stored.spec.bytes(0) > left || graph.initializers.contains(token))
      continue;
    left -= stored.spec.bytes(0);
    std::string row = one_row(stored);
    if (row.empty() || is_repeated_within(stored.spec.shape, row)) continue;
    const std::vector<int64_t> shape(stored.spec.shape.begin(), stored.spec.shape.end());
    Stored once{token, stored.spec, stored.in_file, contents_of(std::move(row), stored.spec.dtype)};
    once.spec.shape[0] = 1;
    nodes.push_back(
        {free_name(name + ".rows", taken), "Expand", {{"shape", shape}}, {token}, {name}});
    graph.initializers.emplace(token, std::move(once));
  }
  for (const GraphNode& node : nodes) {
    graph.initializers.erase(node.outputs[0]);
    graph.computed.erase(node.outputs[0]);
  }
  graph.nodes.insert(graph.nodes.begin(), nodes.begin(), nodes.end());
}

}  // namespace kerf::partitioner::onnx
