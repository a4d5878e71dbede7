// How a program came to its end: what was measured when. Its scheduler's half tells it, a bar shows
// it while the program runs, and a table, JSON and a picture behind it (history_picture.h). Belongs
// to the scheduler's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/report/drawn_line.h"
#include "runtime/json.h"

namespace kerf::apps {

struct Metric {
  enum class Scale : uint8_t {
    kLinear,
    kPowers,      // for what falls by factors, toward 0
    kAboveLeast,  // likewise, toward a least value that nobody knows before
  };

  std::string name;              // of its member in JSON: "train_rmse"
  std::string title;             // of its column: "train RMSE"
  int digits = 6;                // significant, for people
  Scale scale = Scale::kLinear;  // of its picture
};

// What was known at one moment.
struct HistoryPoint {
  int64_t rounds = 0;                         // or what the program counts instead
  int64_t updates = 0;                        // of one variable, one rating, one token each
  double seconds = 0;                         // since the program began
  std::vector<std::optional<double>> values;  // of the metrics; empty where one was not measured

  template <class Archive>
  void serialize(Archive& archive) {
    archive(rounds, updates, seconds, values);
  }
};

// When a program ends before it is done. 0: never.
struct HistoryLimits {
  int64_t most_rounds = 0;
  double most_seconds = 0;
};

class History {
 public:
  using Observer = std::function<void(const HistoryPoint&)>;

  // `counted` is what the program calls that which it counts: "round", "iteration".
  History(std::string counted, std::vector<Metric> metrics, const HistoryLimits& limits = {});

  // Seconds count from here on, of which there are some already; else from the construction.
  void begin(double elapsed = 0);
  double seconds() const;
  bool limit_is_reached(int64_t rounds) const;
  // Told of every point; at most one.
  void observe(Observer observer) { observer_ = std::move(observer); }
  // A value for each metric. What is not kept is only told.
  void add(const HistoryPoint& point, bool keep = true);
  // Of now.
  void add(int64_t rounds, int64_t updates, std::vector<std::optional<double>> values,
           bool keep = true) {
    add({rounds, updates, seconds(), std::move(values)}, keep);
  }

  const std::string& counted() const { return counted_; }
  const std::vector<Metric>& metrics() const { return metrics_; }
  const HistoryLimits& limits() const { return limits_; }
  const std::vector<HistoryPoint>& points() const { return points_; }

  // Up to the last point; 0 where that took no time.
  double rounds_per_second() const;
  // What a snapshot holds of it.
  template <class Archive>
  void serialize(Archive& archive) {
    double elapsed = seconds();
    archive(points_, elapsed);
    if (Archive::is_loading::value) begin(elapsed);
  }

  // A list of objects: what is counted, updates, seconds, and each metric, null where it was not
  // measured.
  Json json() const;
  // Of so many rows at most, the last point among them.
  std::string table(size_t most_rows = 12) const;

 private:
  std::string counted_;
  std::vector<Metric> metrics_;
  HistoryLimits limits_;
  Observer observer_;
  int64_t begin_ns_ = 0;
  std::vector<HistoryPoint> points_;
};

// A bar with what is known of each metric.
class HistoryProgress : public DrawnLine {
 public:
  // How much of the way is behind a point, in [0, 1].
  using Part = std::function<double(const HistoryPoint&)>;
  // `history` outlives this. Without `part`, a bar is of the rounds that there are at most.
  HistoryProgress(Progress::Options options, const History& history, Part part = {});
  void tell(const HistoryPoint& point);

 private:
  std::string line_of(const HistoryPoint& point) const;

  const History& history_;
  Part part_;
  std::vector<std::optional<double>> known_;  // of each metric, the last value
};

}  // namespace kerf::apps
