// Prices of consecutive layers on a group of workers: what its slowest member computes and waits
// for on the wire, by the prices of stage_price.h.
//
// Prices add up: what a member computes of a layer, and what it receives of a value (and returns of
// its gradient), is found once for each shape of group, on a division of the whole model over one
// such group. Pairs (spread.h) depend on where a stage begins: there the division of all layers
// from that one on is another, unless models are so large that this would take long. A stage pays
// for a value once, however many of its layers read it: less where the stage makes it itself, for
// then a member has a share already. Exact for chains without pairs; with them, and where branches
// cross several stages, nearly so (a stage may end with partial sums, a follower may follow another
// input there, and gradients are summed on their way).
//
// Made anew for a model and a request, which it borrows. Several threads may ask for prices: what
// one asks for first the others wait for.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "partitioner/cuts/groups.h"
#include "partitioner/gradients.h"

namespace kerf::partitioner {

class Sources;

class GroupPrices {
 public:
  GroupPrices(const Model& model, const PlanRequest& request);
  ~GroupPrices();

  int layers() const { return static_cast<int>(layers_.size()); }
  // Of layers [begin, end) on such a group, what comes from before `begin` being on one of the
  // shape `before`. Members that compute nothing cost kIdle each; kNever where the way does not
  // divide one of the layers.
  double price(int begin, int end, GroupShape shape, GroupShape before);
  // How much longer these workers take beside devices of speed 1.
  double pace(int first, int workers) const;
  // Bytes of a step that cross a boundary, forward.
  double crossing_bytes(int boundary) const { return crossing_[static_cast<size_t>(boundary)]; }
  // Of the layers before a boundary, on one worker.
  double work_before(int boundary) const { return work_before_[static_cast<size_t>(boundary)]; }

  static constexpr double kIdle = 1e200;  // beyond any price, of FLOPs as well
  static constexpr double kNever = 1e300;

 private:
  struct Shape;
  struct OnGroup;
  using Prices = std::vector<double>;
  using ByMember = std::vector<Prices>;  // of values

  OnGroup& on_group(GroupShape group);
  // Of a stage that begins with this layer.
  const Shape& shape_of(GroupShape group, int begin);
  std::vector<ops::Layout> divided(const OnGroup& on, GroupShape group, int begin) const;
  void find_own(const Sources& sources, const OnGroup& on, Shape& shape) const;
  void find_values(const Sources& sources, const OnGroup& on, Shape& shape) const;
  const Prices& row(int begin, GroupShape shape, GroupShape before);
  Prices new_row(int begin, GroupShape shape, GroupShape before);
  const ByMember& entering(const Shape& to, const Shape& from);
  double wire_of(const Value& value, bool returns, double elements, double messages) const;
  const Model& by_sample();

  // A value that a layer reads of another.
  struct Read {
    size_t value = 0;  // among those that layers read of others
    int producer = 0;  // layer
    int earlier = -1;  // the last layer before this one that reads it
  };

  std::mutex mutex_;  // of all that is found when it is asked for
  const Model& model_;
  const PlanRequest& request_;
  const Gradients gradients_;  // of the model as it is
  std::vector<std::vector<NodeId>> layers_;
  std::vector<ValueId> values_;           // that layers read of others
  std::vector<std::vector<Read>> reads_;  // by layer
  std::vector<double> crossing_;          // by boundary
  std::vector<double> work_before_;       // by boundary
  std::unique_ptr<Model> by_sample_;      // rewritten; made when it is asked for
  std::map<GroupShape, std::unique_ptr<OnGroup>> groups_;
  std::map<std::pair<int, int>, ByMember> entering_;  // by numbers of shapes
  int shapes_ = 0;
  std::map<std::tuple<int, GroupShape, GroupShape>, Prices> rows_;
};

}  // namespace kerf::partitioner
