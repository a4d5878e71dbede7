// How well topics came to explain a corpus: what was known when, as a bar while it runs, and as a
// table and JSON behind it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/report/convergence.h"
#include "apps/report/drawn_line.h"
#include "runtime/json.h"

namespace kerf::apps {

// Behind one iteration; behind none, of the topics that were drawn first.
struct LdaPoint {
  int64_t iterations = 0;
  int64_t updates = 0;        // tokens that were worked on
  double seconds = 0;         // since the program began
  double log_likelihood = 0;  // of all tokens and topics: lda.h
  double per_token = 0;       // the same, by tokens
};

// A list of objects.
Json to_json(const std::vector<LdaPoint>& points);
// Of so many rows at most, the last point among them.
std::string lda_table(const std::vector<LdaPoint>& points, size_t most_rows = 12);
// What falls is the likelihood's negative.
std::vector<ConvergencePoint> as_convergence(const std::vector<LdaPoint>& points);

// With a bar that is full behind so many iterations.
class LdaProgress : public DrawnLine {
 public:
  LdaProgress(Progress::Options options, int64_t iterations);
  void tell(const LdaPoint& point);

 private:
  std::string line_of(const LdaPoint& point) const;

  int64_t iterations_;
};

}  // namespace kerf::apps
