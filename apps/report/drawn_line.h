// A line on a terminal that tells of a run, redrawn at most ten times a second; elsewhere nothing.
// Of one thread.
#pragma once

#include <functional>
#include <string>

#include "apps/report/progress.h"

namespace kerf::apps {

class DrawnLine : public ProgressBar {
 public:
  // `options` as progress_on_stderr() has them.
  explicit DrawnLine(Progress::Options options);
  void finish() override { abandon(); }
  void abandon() override;

 protected:
  // What `line` gives, cut to the terminal's width; it is asked where that is to be seen.
  void draw(const std::function<std::string()>& line);

 private:
  Progress::Options options_;
  Progress::Time drawn_{};
  bool is_there_ = false;
};

// "[======                  ]": `part` of it, in [0, 1].
std::string bar_of_part(double part);
// "1,234 updates/s", of so many in so long.
std::string updates_a_second(int64_t updates, double seconds);

}  // namespace kerf::apps
