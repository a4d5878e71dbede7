// Load balancing by measured times: divides a set of variables over workers so that they finish
// together, as STRADS does with unequal work (Kim et al., EuroSys 2016) and also with unequal
// workers.
//
// Longest processing time first (Graham, 1969): by falling weight, each variable goes to the worker
// that would finish it first. With equal workers the last finish is at most 4/3 - 1/(3W) of the
// earliest possible one (Graham), with workers of different speeds at most 5/3 (Friesen, 1987).
//
// A worker's pace is its seconds for a unit of weight: a quotient of running sums, in which each
// measurement counts `decay` times as much as the one after it. A worker at half speed soon gets
// about half. One that was so slow that it got nothing is measured no more: its pace goes back to
// the others' by and by, so that it gets something again. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kerf::schedmp {

class LoadBalancer {
 public:
  // Remembers about 1 / (1 - decay) measurements.
  static constexpr double kDecay = 0.8;

  // Throws Error{kUsage} unless there is a worker and 0 <= decay < 1.
  explicit LoadBalancer(int workers, double decay = kDecay);

  // A worker had tasks of this weight (non-zeros, rows, ...) and computed for so many seconds, by
  // its own clock. Both are finite and not negative; without weight it says nothing of the pace.
  void measured(int worker, double weight, double seconds);
  // Of a worker without measurements the mean of those that have some; 1 of all where none has.
  double seconds_per_weight(int worker) const;

  // weights[i] is that of variables[i], in the unit of measured(). For each worker its variables,
  // in the order of the set; the same measurements give the same answer. Throws Error{kUsage} of a
  // weight that is negative or not finite.
  std::vector<std::vector<int64_t>> divide(std::span<const int64_t> variables,
                                           std::span<const double> weights);
  // The same of what stays in its order, in one piece for each worker, of which there are no more:
  // worker w gets those from borders[w] to borders[w + 1], one at least. But for that, borders[w]
  // is the first place at which workers 0 to w - 1 have their part of all weight, rounded down.
  // Weights are not negative, and add up to 2^53 at most.
  std::vector<int64_t> borders(std::span<const int64_t> weights) const;
  // What a snapshot holds of it, of one that was made of the same arguments.
  template <class Archive>
  void serialize(Archive& archive) {
    archive(sums_);
  }

 private:
  struct Sums {
    double weight = 0;
    double seconds = 0;
    bool measured() const { return weight > 0 && seconds > 0; }
    template <class Archive>
    void serialize(Archive& archive) {
      archive(weight, seconds);
    }
  };
  std::vector<double> pace() const;  // seconds_per_weight() of each
  void fade(size_t worker);

  double decay_;
  std::vector<Sums> sums_;  // by worker
};

}  // namespace kerf::schedmp
