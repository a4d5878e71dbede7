//   {"maxSizePerFPGA": bytes, "maxFPGAs": 6, "maxCPUs": 1,
//    "nodes": [{"name": "node1", "id": 1, "supportedOnFpga": 1, "cpuLatency": 6.9, "fpgaLatency":
//               0.69, "isBackwardNode": 0, "colorClass": 1, "size": bytes}, ...],
//    "edges": [{"sourceId": 1, "destId": 3, "cost": 0.09, "size": bytes}, ...]}
//
// "colorClass" may be missing: the node is bound to no other. Milliseconds and bytes.
#include <algorithm>
#include <map>

#include "partitioner/formats/named_nodes.h"
#include "partitioner/graph_formats.h"
#include "runtime/error.h"
#include "runtime/json.h"

namespace kerf::partitioner {

namespace {

constexpr int kMostDevices = 1 << 20;

class Placement {
 public:
  explicit Placement(const std::string& origin) : origin_(origin), nodes_(origin) {}

  ReadGraph read(const std::string& text) {
    const Json file = parse_json(text, origin_);
    refuse_unknown(file, {"maxSizePerFPGA", "maxFPGAs", "maxCPUs", "nodes", "edges"}, origin_);
    figures_.name = origin_;
    figures_.unit = "ms";
    figures_.work.resize(2);  // accelerators and hosts
    const int64_t devices = json_int(file, "maxFPGAs", origin_);
    if (devices < 1 || devices > kMostDevices)
      throw Error(ErrorCode::kUsage,
                  format("\"maxFPGAs\" {} is not within 1 and {}", devices, kMostDevices), origin_);
    const int64_t hosts = file.contains("maxCPUs") ? json_int(file, "maxCPUs", origin_) : 0;
    if (hosts < 0 || hosts > kMostDevices)
      throw Error(ErrorCode::kUsage,
                  format("\"maxCPUs\" {} is not within 0 and {}", hosts, kMostDevices), origin_);
    const double memory =
        checked_figure(json_number(file, "maxSizePerFPGA", origin_), "\"maxSizePerFPGA\"", origin_);
    if (memory < 1)
      throw Error(
          ErrorCode::kUsage,
          format("\"maxSizePerFPGA\" {} leaves no room for anything: it is in bytes", memory),
          origin_);
    const Json& nodes = json_array(file, "nodes", origin_);
    for (size_t i = 0; i < nodes.size(); ++i)
      add_node(nodes[i], format("{}: nodes[{}]", origin_, i));
    const Json& edges = json_array(file, "edges", origin_);
    sent_.resize(nodes.size());
    for (size_t i = 0; i < edges.size(); ++i)
      add_edge(edges[i], format("{}: edges[{}]", origin_, i));
    add_values();
    figures_.nodes = nodes_.take();
    return {checked_graph(std::move(figures_), origin_), static_cast<int>(devices),
            static_cast<int>(hosts), static_cast<int64_t>(memory)};
  }

 private:
  // Of the tensor that a node makes: the most that any edge says.
  struct Sent {
    double cost = 0;
    double bytes = 0;
  };

  static void refuse_unknown(const Json& object, const std::vector<std::string>& known,
                             const std::string& where) {
    if (!object.is_object()) throw Error(ErrorCode::kUsage, "must be an object", where);
    for (const auto& [key, value] : object.items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        throw Error(ErrorCode::kUsage, format("\"{}\" is unknown here", key), where);
  }

  // Some of these files write 0 and 1, some false and true.
  static bool truth(const Json& object, const std::string& key, const std::string& where) {
    const Json& value = json_at(object, key, where);
    if (value.is_boolean()) return value.get<bool>();
    if (value.is_number_integer() && (value == 0 || value == 1)) return value == 1;
    throw Error(ErrorCode::kUsage, format("\"{}\" must be true or false", key), where);
  }

  void add_node(const Json& json, const std::string& place) {
    refuse_unknown(json,
                   {"name", "id", "supportedOnFpga", "cpuLatency", "fpgaLatency", "isBackwardNode",
                    "colorClass", "size"},
                   place);
    const std::string name = json_string(json, "name", place);
    if (name.empty()) throw Error(ErrorCode::kUsage, "\"name\" is empty", place);
    const std::string where = format("{} ({})", place, name);
    CostNode node{name, -1, truth(json, "isBackwardNode", where)};
    if (json.contains("colorClass"))
      node.colour =
          colours_
              .try_emplace(json_int(json, "colorClass", where), static_cast<int>(colours_.size()))
              .first->second;
    if (!truth(json, "supportedOnFpga", where))
      throw Error(ErrorCode::kUsage,
                  "\"supportedOnFpga\" is false, and there is nowhere else to put the node", where);
    const double on_host =
        checked_figure(json_number(json, "cpuLatency", where), "\"cpuLatency\"", where);
    const double time =
        checked_figure(json_number(json, "fpgaLatency", where), "\"fpgaLatency\"", where);
    figures_.work[0].push_back(node.backward ? Work{0, time} : Work{time, 0});
    figures_.work[1].push_back(node.backward ? Work{0, on_host} : Work{on_host, 0});
    const double size = checked_figure(json_number(json, "size", where), "\"size\"", where);
    const int number =
        nodes_.add(std::to_string(json_int(json, "id", where)), std::move(node), where);
    figures_.held.push_back({{number}, size, 0});
  }

  int node_of(const Json& json, const std::string& key, const std::string& where) const {
    const int64_t id = json_int(json, key, where);
    const int node = nodes_.find(std::to_string(id));
    if (node < 0)
      throw Error(ErrorCode::kUsage, format("\"{}\": there is no node with id {}", key, id), where);
    return node;
  }

  void add_edge(const Json& json, const std::string& where) {
    refuse_unknown(json, {"sourceId", "destId", "cost", "size"}, where);
    const int from = node_of(json, "sourceId", where);
    const int to = node_of(json, "destId", where);
    Sent& sent = sent_[static_cast<size_t>(from)];
    sent.cost =
        std::max(sent.cost, checked_figure(json_number(json, "cost", where), "\"cost\"", where));
    sent.bytes =
        std::max(sent.bytes, checked_figure(json_number(json, "size", where), "\"size\"", where));
    nodes_.connect(from, to);
  }

  void add_values() {
    std::vector<std::vector<int>> readers = nodes_.readers();
    for (size_t node = 0; node < readers.size(); ++node) {
      if (readers[node].empty()) continue;
      const Sent& sent = sent_[node];
      figures_.values.push_back({static_cast<int>(node), std::move(readers[node]), sent.bytes,
                                 sent.bytes, sent.cost, sent.cost});
    }
  }

  const std::string& origin_;
  NamedNodes nodes_;
  CostFigures figures_;
  std::map<int64_t, int> colours_;
  std::vector<Sent> sent_;  // by node
};

}  // namespace

ReadGraph read_placement(const std::string& text, const std::string& origin) {
  return Placement(origin).read(text);
}

}  // namespace kerf::partitioner
