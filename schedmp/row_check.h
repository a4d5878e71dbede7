// The part of verify.h's check_order that looks at each row by itself: every action once, each
// after what it builds on. For verify_order.cc. Pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/format.h"
#include "schedmp/verify.h"

namespace kerf::schedmp {

// Keeps the first problems and counts the others.
class Problems {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    if (full()) return add_untold();
    list_.push_back(kerf::format(text, std::forward<Args>(args)...));
  }
  bool full() const { return list_.size() >= kMostProblems; }
  void add_untold() { ++more_; }
  std::vector<std::string> take() {
    if (more_ > 0) list_.push_back(kerf::format("and {} more problems", more_));
    return std::move(list_);
  }

 private:
  std::vector<std::string> list_;
  int64_t more_ = 0;
};

// The groups' workers exist.
void check_rows(const Schedule& schedule, Problems& problems);

}  // namespace kerf::schedmp
