#include "apps/models.h"

#include "partitioner/channels_last.h"
#include "partitioner/zoo.h"

namespace kerf::apps {

partitioner::Model make_model(const std::string& source) {
  return partitioner::channels_last(partitioner::make_zoo_model_of(source));
}

}  // namespace kerf::apps
