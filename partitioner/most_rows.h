// The most rows of a micro-batch that fit under a cap, found with few plans. Within this folder.
#pragma once

#include <functional>
#include <optional>

#include "partitioner/cut.h"

namespace kerf::partitioner {

struct TriedRows {
  int64_t rows = 0;
  bool within = false;
  std::optional<int64_t> peak = std::nullopt;  // of a plan, within the cap or not
};

// A plan of the request, of which only that it is within the caps counts; of a hybrid cut in
// whichever way is, or takes least. Of a model before any rewrite.
TriedRows try_rows(const Model& model, const PlanRequest& request, const InFlight& in_flight);
// The fewest rows of a micro-batch that there is a plan of, whatever it takes: a cut by samples has
// none of fewer than it divides them over.
int64_t fewest_rows(const Model& model, const PlanRequest& request, const InFlight& in_flight);

// Peaks grow with rows almost in proportion, so that the next number to try is where the line
// through two known peaks meets the cap; where that gains little, it is halfway.
class MostRows {
 public:
  using Try = std::function<TriedRows(int64_t rows)>;

  MostRows(Try try_with, std::optional<int64_t> cap) : try_with_(std::move(try_with)), cap_(cap) {}

  // Between these, of which the one above may have no peak.
  TriedRows between(const TriedRows& fits, const TriedRows& above);
  // A few more than that: a search for plans under a cap may miss one where it finds one of a few
  // rows more, and rows that parts share evenly may fit where one less does not.
  TriedRows further();

 private:
  int64_t on_the_line() const;
  bool find_more();

  const Try try_with_;
  const std::optional<int64_t> cap_;  // empty: each device has its own
  int64_t end_ = 0;
  TriedRows fits_;    // the most that is known to fit
  TriedRows before_;  // the most before that
  TriedRows above_;   // the fewest that are known not to, or more than there may be
};

}  // namespace kerf::partitioner
