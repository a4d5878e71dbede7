// The colours of a picture: one for each set of workers that a stage is on together, so that stages
// of the same workers look alike. A worker by itself has the same colour in every picture; groups
// have colours of their own. Plain values.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "partitioner/plan.h"

namespace kerf::partitioner {

struct PictureColour {
  std::string_view fill;
  std::string_view line;
};

// As the legend has it.
struct ColouredWorkers {
  std::vector<int> workers;  // ascending
  std::vector<int> stages;   // that are on these, ascending
  PictureColour colour;
};

class PictureColours {
 public:
  explicit PictureColours(const Plan& plan);

  const std::vector<ColouredWorkers>& all() const { return all_; }
  // Of what a part has of a stage. A replica of a stage is on the workers of its own parts.
  const ColouredWorkers& of(int stage, int part) const {
    return all_[index_.at({stage, replica_of(part)})];
  }

 private:
  int replica_of(int part) const { return replica_parts_ > 0 ? part / replica_parts_ : 0; }

  const int replica_parts_;  // as in Division
  std::vector<ColouredWorkers> all_;
  std::map<std::pair<int, int>, size_t> index_;  // by stage and replica
};

// "worker 0: stages 0, 2", "workers 0-3: stage 1".
std::string legend_text(const ColouredWorkers& coloured);

}  // namespace kerf::partitioner
