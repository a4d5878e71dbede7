#include <array>
#include <vector>

#include "partitioner/graph_formats.h"
#include "runtime/error.h"

namespace kerf::partitioner {

namespace {

constexpr std::array<GraphFormat, 3> kFormats = {{
    {"placement", "JSON of the device-placement benchmark (dnn-partitioning)", read_placement},
    {"pipedream", "text of PipeDream's profiles", read_pipedream},
    {"costs", "JSON that --graph-out writes", read_costs},
}};

}  // namespace

std::span<const GraphFormat> graph_formats() { return kFormats; }

const GraphFormat& find_graph_format(const std::string& name) {
  std::vector<std::string_view> names;
  for (const GraphFormat& format : kFormats) {
    if (format.name == name) return format;
    names.push_back(format.name);
  }
  throw Error(ErrorCode::kUsage, format("there is no format \"{}\"; the formats are {}", name,
                                        fmt::join(names, ", ")));
}

}  // namespace kerf::partitioner
