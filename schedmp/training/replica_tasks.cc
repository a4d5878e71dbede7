#include "schedmp/training/replica_tasks.h"

#include "schedmp/training/replicas.h"

namespace kerf::schedmp {

TrainingTask task_of_replica(const TrainingTask& task, int replica, int replicas) {
  TrainingTask own = task;
  const auto divide = [&](int64_t& first, int64_t& rows) {
    const ops::Range part = rows_of_replica({first, first + rows}, replica, replicas);
    first = part.begin;
    rows = part.size();
  };
  divide(own.first, own.rows);
  divide(own.next.first, own.next.rows);
  return own;
}

LaneTable lanes_of_replicas(const LaneTable& lanes, int replicas) {
  const size_t each = lanes.size();
  LaneTable all = no_lanes(static_cast<int>(each) * replicas);
  for (size_t u = 0; u < all.size(); ++u)
    for (size_t v = 0; v < each; ++v) all[u][u / each * each + v] = lanes[u % each][v];
  return all;
}

TransportTable transports_of_replica(const TransportTable& transports, int replica, int workers) {
  const auto count = static_cast<size_t>(workers);
  const size_t first = static_cast<size_t>(replica) * count;
  TransportTable own(count, std::vector<std::optional<runtime::TransportKind>>(count));
  for (size_t u = 0; u < count; ++u)
    for (size_t v = 0; v < count; ++v) own[u][v] = transports[first + u][first + v];
  return own;
}

}  // namespace kerf::schedmp
