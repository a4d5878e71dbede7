//   {"name": "lenet5", "unit": "s",
//    "nodes": [{"name": "conv1", "forward": [0.1], "backward": [0.2], "colour": 3,
//               "gradient": true}],
//    "values": [{"producer": 0, "readers": [1, 2], "bytes": 800, "forward_bytes": 400,
//                "enter": 0.1, "leave": 0, "returned_bytes": 400, "returning": 0.05,
//                "returns": [1, 1, 2]}],
//    "held": [{"nodes": [0], "fixed": 100, "per_micro_batch": 10}],
//    "close": [[4, 5]]}
//
// All that a cost graph is. Nodes are meant by their place; `forward` and `backward` have a number
// for each type of device; what is 0, empty or false may be left out, as is a colour of nodes that
// have none, and as are "held" and "close".
#include <algorithm>
#include <limits>

#include "partitioner/formats/named_nodes.h"
#include "partitioner/graph_formats.h"
#include "runtime/error.h"
#include "runtime/json.h"

namespace kerf::partitioner {

namespace {

constexpr size_t kMostKinds = 4;  // of devices

[[noreturn]] void refuse_costs(const std::string& why, const std::string& where) {
  throw Error(ErrorCode::kUsage, why, where);
}

class Costs {
 public:
  explicit Costs(const std::string& origin) : origin_(origin), nodes_(origin) {}

  ReadGraph read(const std::string& text) {
    const Json file = parse_json(text, origin_);
    only(file, {"name", "unit", "nodes", "values", "held", "close"}, origin_);
    figures_.name = json_string(file, "name", origin_);
    figures_.unit = json_string(file, "unit", origin_);
    each(file, "nodes", [&](const Json& node, const std::string& where) { add_node(node, where); });
    figures_.nodes = nodes_.take();
    each(file, "values",
         [&](const Json& value, const std::string& where) { add_value(value, where); });
    if (file.contains("held"))
      each(file, "held", [&](const Json& held, const std::string& where) {
        only(held, {"nodes", "fixed", "per_micro_batch"}, where);
        figures_.held.push_back({numbers(held, "nodes", where), figure(held, "fixed", where),
                                 figure(held, "per_micro_batch", where)});
        distinct(figures_.held.back().nodes, where);
      });
    if (file.contains("close"))
      each(file, "close", [&](const Json& pair, const std::string& where) {
        if (!pair.is_array() || pair.size() != 2) refuse_costs("must be two nodes", where);
        figures_.close.emplace_back(number(pair[0], where), number(pair[1], where));
      });
    return {checked_graph(std::move(figures_), origin_), std::nullopt, 0, std::nullopt};
  }

 private:
  static void only(const Json& object, const std::vector<std::string>& known,
                   const std::string& where) {
    if (!object.is_object()) refuse_costs("must be an object", where);
    for (const auto& [key, value] : object.items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        refuse_costs(format("\"{}\" is unknown here", key), where);
  }
  template <class Act>
  void each(const Json& object, const std::string& key, const Act& act) {
    const Json& list = json_array(object, key, origin_);
    for (size_t i = 0; i < list.size(); ++i) act(list[i], format("{}: {}[{}]", origin_, key, i));
  }
  static double figure(const Json& object, const std::string& key, const std::string& where) {
    if (!object.contains(key)) return 0;
    return checked_figure(json_number(object, key, where), "\"" + key + "\"", where);
  }
  int number(const Json& json, const std::string& where) const {
    const auto count = static_cast<int64_t>(figures_.nodes.size());
    if (!json.is_number_integer() || json < 0 || json >= count)
      refuse_costs(format("{} is no node's number, from 0 to {}", json_text(json), count - 1),
                   where);
    return json.get<int>();
  }
  std::vector<int> numbers(const Json& object, const std::string& key,
                           const std::string& where) const {
    std::vector<int> result;
    if (!object.contains(key)) return result;
    const std::string place = where + "." + key;
    for (const Json& each : json_array(object, key, where)) result.push_back(number(each, place));
    return result;
  }
  static void distinct(std::vector<int>& nodes, const std::string& where) {
    std::sort(nodes.begin(), nodes.end());
    if (std::adjacent_find(nodes.begin(), nodes.end()) != nodes.end())
      refuse_costs("names a node twice", where);
  }

  std::vector<double> by_type(const Json& json, const std::string& key, const std::string& where) {
    std::vector<double> result;
    const Json& list = json_array(json, key, where);
    for (const Json& each : list) {
      if (!each.is_number()) refuse_costs(format("\"{}\" must be numbers", key), where);
      result.push_back(checked_figure(each.get<double>(), "\"" + key + "\"", where));
    }
    return result;
  }

  void add_node(const Json& json, const std::string& where) {
    only(json, {"name", "forward", "backward", "colour", "gradient"}, where);
    CostNode node{json_string(json, "name", where), -1, false};
    if (node.name.empty()) refuse_costs("\"name\" is empty", where);
    if (json.contains("colour")) {
      const int64_t colour = json_int(json, "colour", where);
      if (colour < 0 || colour > std::numeric_limits<int>::max())
        refuse_costs(format("\"colour\" {} is out of range", colour), where);
      node.colour = static_cast<int>(colour);
    }
    if (json.contains("gradient")) {
      if (!json["gradient"].is_boolean()) refuse_costs("\"gradient\" must be true or false", where);
      node.backward = json["gradient"].get<bool>();
    }
    const std::vector<double> forward = by_type(json, "forward", where);
    const std::vector<double> backward = by_type(json, "backward", where);
    if (figures_.work.empty() && !forward.empty() && forward.size() <= kMostKinds)
      figures_.work.resize(forward.size());
    if (forward.size() != figures_.work.size() || backward.size() != figures_.work.size() ||
        forward.empty())
      refuse_costs(format("\"forward\" and \"backward\" must have as many numbers as those of the "
                          "first node, from 1 to {}: one for each type of device",
                          kMostKinds),
                   where);
    for (size_t type = 0; type < forward.size(); ++type)
      figures_.work[type].push_back({forward[type], backward[type]});
    const std::string name = node.name;
    nodes_.add(name, std::move(node), where);
  }

  // All that read a value, or none of them.
  static void check_returns(const CostValue& value, const std::string& where) {
    std::vector<int> nodes = value.returns;
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    for (const int node : nodes)
      if (!std::binary_search(value.readers.begin(), value.readers.end(), node))
        refuse_costs(format("node {} returns a gradient, but reads nothing", node), where);
    if (nodes.empty() || nodes == value.readers) return;
    const auto silent = std::find_if(value.readers.begin(), value.readers.end(), [&](int node) {
      return !std::binary_search(nodes.begin(), nodes.end(), node);
    });
    refuse_costs(format("node {} reads the value, but is not among those that return its gradient; "
                        "give that a value of its own, with the readers that do",
                        *silent),
                 where);
  }

  void add_value(const Json& json, const std::string& where) {
    only(json,
         {"producer", "readers", "bytes", "forward_bytes", "enter", "leave", "returned_bytes",
          "returning", "returns"},
         where);
    CostValue value;
    value.producer = number(json_at(json, "producer", where), where + ".producer");
    value.readers = numbers(json, "readers", where);
    distinct(value.readers, where + ".readers");
    value.bytes = figure(json, "bytes", where);
    value.forward_bytes = figure(json, "forward_bytes", where);
    value.enter = figure(json, "enter", where);
    value.leave = figure(json, "leave", where);
    value.returned_bytes = figure(json, "returned_bytes", where);
    value.returning = figure(json, "returning", where);
    value.returns = numbers(json, "returns", where);
    if (value.returned_bytes > value.bytes || value.returning > value.enter)
      refuse_costs("what returns is more than what enters, of which it is a part", where);
    check_returns(value, where);
    figures_.values.push_back(std::move(value));
  }

  const std::string& origin_;
  NamedNodes nodes_;
  CostFigures figures_;
};

void put(Json& json, const char* key, double figure) {
  if (figure != 0) json[key] = figure;
}

}  // namespace

ReadGraph read_costs(const std::string& text, const std::string& origin) {
  return Costs(origin).read(text);
}

std::string write_costs(const CostGraph& graph) {
  Json nodes = Json::array();
  for (int id = 0; id < graph.size(); ++id) {
    const CostNode& node = graph.node(id);
    Json json = {{"name", node.name}};
    Json forward = Json::array();
    Json backward = Json::array();
    for (int type = 0; type < graph.device_types(); ++type) {
      forward.push_back(graph.work(type, id).forward);
      backward.push_back(graph.work(type, id).backward);
    }
    json["forward"] = std::move(forward);
    json["backward"] = std::move(backward);
    if (node.colour >= 0) json["colour"] = node.colour;
    if (node.backward) json["gradient"] = true;
    nodes.push_back(std::move(json));
  }
  Json values = Json::array();
  for (const CostValue& value : graph.values()) {
    Json json = {{"producer", value.producer}, {"readers", value.readers}};
    put(json, "bytes", value.bytes);
    put(json, "forward_bytes", value.forward_bytes);
    put(json, "enter", value.enter);
    put(json, "leave", value.leave);
    put(json, "returned_bytes", value.returned_bytes);
    put(json, "returning", value.returning);
    if (!value.returns.empty()) json["returns"] = value.returns;
    values.push_back(std::move(json));
  }
  Json held = Json::array();
  for (const Held& each : graph.held()) {
    Json json = {{"nodes", each.nodes}};
    put(json, "fixed", each.fixed);
    put(json, "per_micro_batch", each.per_micro_batch);
    held.push_back(std::move(json));
  }
  Json close = Json::array();
  for (const auto& [a, b] : graph.close()) close.push_back(Json::array({a, b}));
  const Json json = {{"name", graph.name()}, {"unit", graph.unit()}, {"nodes", nodes},
                     {"values", values},     {"held", held},         {"close", close}};
  return json_text(json, 1) + "\n";
}

}  // namespace kerf::partitioner
