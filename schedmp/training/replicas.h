// Replicas: a plan that several groups of workers run at once, each on its own rows, with weights
// that they share through tables (schedmp/tables), one for each part of the plan.
//
//   ssp:S      each step pushes its gradient to the tables' optimizer, and reads weights that lack
//              at most the last S clocks of any replica (Ho et al., NIPS 2013)
//   async      the same without a bound; gradients may be pushed, and weights fetched, every so
//              many steps (Downpour SGD: Dean et al., "Large Scale Distributed Deep Networks",
//              NIPS 2012)
//   average:K  each replica trains by itself, and every K steps all go on from the mean of their
//              weights
//
// Between two fetches a replica goes on by plain steps of its own. Each has its part of every
// batch; before weights are tested or saved all have done all, and have the same. Running
// statistics are the mean of what replicas say.
//
// Where replicas are synchronous in every step they are none: that is the batch cut.
//
// Plain values and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ops/layout.h"
#include "ops/optimizer.h"
#include "partitioner/part.h"
#include "schedmp/tables/table_spec.h"

namespace kerf::schedmp {

struct Consistency {
  enum class Kind : uint8_t { kSync, kSsp, kAsync, kAverage };
  Kind kind = Kind::kSync;
  int64_t count = 0;  // S, K

  template <class Archive>
  void serialize(Archive& archive) {
    archive(kind, count);
  }
  bool operator==(const Consistency&) const = default;
};

// "sync", "ssp:3", "async", "average:16". Throws Error{kUsage}.
Consistency parse_consistency(const std::string& text);
std::string to_string(const Consistency& consistency);

struct ReplicaOptions {
  int count = 1;  // 1: there are no tables
  Consistency consistency;
  int server_groups = 1;   // of replicas that have tables of their own
  int64_t push_every = 1;  // steps; this and the next: of kAsync
  int64_t fetch_every = 1;

  bool averages() const { return consistency.kind == Consistency::Kind::kAverage; }
  int64_t pushes_every() const { return averages() ? consistency.count : push_every; }
  int64_t fetches_every() const { return averages() ? consistency.count : fetch_every; }
  // Whether a replica's own optimizer changes its weights between fetches.
  bool steps_alone() const { return averages() || fetch_every > 1; }

  template <class Archive>
  void serialize(Archive& archive) {
    archive(count, consistency, server_groups, push_every, fetch_every);
  }
};
// Throws Error{kUsage} that says what does not go together.
void check(const ReplicaOptions& options);

// What a worker itself updates weights by: the run's optimizer, or, where tables have that, plain
// steps.
ops::OptimizerOptions optimizer_of_worker(const ops::OptimizerOptions& optimizer,
                                          const ReplicaOptions& replicas);

// A replica's part of a batch, or of a piece of it: as even as can be.
ops::Range rows_of_replica(ops::Range rows, int replica, int replicas);

// Which of a part's tensors lie in its table, and where: each begins a row. None where the part
// trains nothing: statistics of frozen layers are each replica's own.
struct SharedTensor {
  int local = -1;
  bool is_state = false;  // a running statistic, which no gradient changes
  int64_t elements = 0;
  ops::Range rows;
};
inline constexpr int64_t kSharedWidth = 256;
std::vector<SharedTensor> shared_tensors(const partitioner::Part& part);
// Where a tensor lies in the numbers of all rows.
template <class Number>
std::span<Number> of_rows(std::vector<Number>& numbers, const SharedTensor& tensor) {
  return std::span(numbers).subspan(static_cast<size_t>(tensor.rows.begin * kSharedWidth),
                                    static_cast<size_t>(tensor.elements));
}
// Throws Error{kUsage} where a part updates within its steps, or where two keep the same weight:
// who makes new weights elsewhere would have to make these twice.
void check_apart(const partitioner::Model& model, const std::vector<partitioner::Part>& parts);

// The tables of all parts that have anything to share, by part; worker w of replica r is r times
// the workers of a replica, and w. Throws as check_apart().
std::vector<std::pair<int, TableSpec>> weight_tables(const partitioner::Model& model,
                                                     const std::vector<partitioner::Part>& parts,
                                                     int workers,
                                                     const ops::OptimizerOptions& optimizer,
                                                     const ReplicaOptions& replicas);

// What a worker holds of such a table beside what it serves: weights as they were fetched,
// gradients that add up, those on their way in three places, and answers to others; not slots.
int64_t client_bytes(const TableSpec& table);

}  // namespace kerf::schedmp
