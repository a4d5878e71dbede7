//   node4 -- Embedding(32320, 1024) -- forward_compute_time=0.073, backward_compute_time=6.949,
//                                      activation_size=6291456.0, parameter_size=132382720.000
//   node7 -- LSTM(2048, 1024) -- ..., activation_size=[6291456.0; 131072.0], parameter_size=...
//   <TAB>node4 -- node7
//
// One node or one edge a line; a node may end in " -- stage_id=2". Milliseconds and bytes; the
// sizes of a list add up.
#include <charconv>

#include "partitioner/formats/named_nodes.h"
#include "partitioner/graph_formats.h"
#include "runtime/error.h"

namespace kerf::partitioner {

namespace {

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + separator.size());
  }
}

double number_of(std::string_view text, const std::string& what, const std::string& where) {
  double number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || end != text.data() + text.size())
    throw Error(ErrorCode::kUsage, format("{} \"{}\" is no number", what, text), where);
  return checked_figure(number, what, where);
}

class PipeDream {
 public:
  explicit PipeDream(const std::string& origin) : origin_(origin), nodes_(origin) {}

  ReadGraph read(const std::string& text) {
    figures_.name = origin_;
    figures_.unit = "ms";
    figures_.work.resize(1);
    const std::vector<std::string_view> lines = split(text, "\n");
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::string where = format("{}:{}", origin_, i + 1);
      if (lines[i].empty() && i + 1 == lines.size()) break;
      if (lines[i].starts_with('\t'))
        edges_.emplace_back(i + 1, lines[i].substr(1));
      else
        add_node(lines[i], where);
    }
    for (const auto& [line, edge] : edges_) add_edge(edge, format("{}:{}", origin_, line));
    std::vector<std::vector<int>> readers = nodes_.readers();
    for (size_t node = 0; node < readers.size(); ++node) {
      const double bytes = activations_[node];
      if (!readers[node].empty())
        figures_.values.push_back(
            {static_cast<int>(node), std::move(readers[node]), 2 * bytes, bytes, 0, 0});
    }
    figures_.nodes = nodes_.take();
    return {checked_graph(std::move(figures_), origin_), std::nullopt, 0, std::nullopt};
  }

 private:
  void add_node(std::string_view line, const std::string& place) {
    const std::vector<std::string_view> parts = split(line, " -- ");
    const bool staged = parts.size() == 4 && parts[3].starts_with("stage_id=");
    if ((parts.size() != 3 && !staged) || parts[0].empty())
      throw Error(ErrorCode::kUsage,
                  "a node is \"NAME -- OPERATOR -- forward_compute_time=..., ...\", an edge a tab "
                  "and \"NAME -- NAME\"",
                  place);
    const std::string name(parts[0]);
    const std::string where = format("{}: {}", place, name);
    const std::vector<std::string_view> fields = split(parts[2], ", ");
    if (fields.size() != 4)
      throw Error(ErrorCode::kUsage, format("{} fields, not 4", fields.size()), where);
    const auto field = [&](size_t i, std::string_view key) {
      if (!fields[i].starts_with(key) || fields[i].substr(key.size()).substr(0, 1) != "=")
        throw Error(ErrorCode::kUsage, format("\"{}\" must be \"{}=NUMBER\"", fields[i], key),
                    where);
      return fields[i].substr(key.size() + 1);
    };
    const auto figure = [&](size_t i, const std::string& key) {
      return number_of(field(i, key), key, where);
    };
    figures_.work[0].push_back(
        {figure(0, "forward_compute_time"), figure(1, "backward_compute_time")});
    const double activation = sizes(field(2, "activation_size"), where);
    activations_.push_back(activation);
    const double parameters = figure(3, "parameter_size");
    figures_.held.push_back({{nodes_.add(name, {name, -1, false}, where)}, parameters, activation});
  }

  static double sizes(std::string_view text, const std::string& where) {
    const bool list = text.size() >= 2 && text.front() == '[' && text.back() == ']';
    if (list) text = text.substr(1, text.size() - 2);
    double sum = 0;
    for (const std::string_view size : list ? split(text, "; ") : std::vector{text})
      sum += number_of(size, "activation_size", where);
    return sum;
  }

  void add_edge(std::string_view line, const std::string& where) {
    const std::vector<std::string_view> ends = split(line, " -- ");
    if (ends.size() != 2) throw Error(ErrorCode::kUsage, "an edge is \"NAME -- NAME\"", where);
    std::vector<int> nodes;
    for (const std::string_view end : ends) {
      nodes.push_back(nodes_.find(std::string(end)));
      if (nodes.back() < 0)
        throw Error(ErrorCode::kUsage, format("there is no node \"{}\"", end), where);
    }
    nodes_.connect(nodes[0], nodes[1]);
  }

  const std::string& origin_;
  NamedNodes nodes_;
  CostFigures figures_;
  std::vector<double> activations_;                         // by node
  std::vector<std::pair<size_t, std::string_view>> edges_;  // with their lines
};

}  // namespace

ReadGraph read_pipedream(const std::string& text, const std::string& origin) {
  return PipeDream(origin).read(text);
}

}  // namespace kerf::partitioner
