#include "apps/models.h"

#include "partitioner/channels_last.h"
#include "partitioner/zoo.h"

namespace kerf::apps {

partitioner::Model make_model(const std::string& source) {
  const size_t space = source.find(' ');
  partitioner::ZooOptions options;
  if (space != std::string::npos)
    options.sizes = partitioner::parse_sizes(source.substr(space + 1));
  return partitioner::channels_last(partitioner::make_zoo_model(source.substr(0, space), options));
}

std::string model_source(const std::string& name, const std::string& sizes) {
  return sizes.empty() ? name : name + " " + sizes;
}

}  // namespace kerf::apps
