// A line that tells what takes its time: on a terminal, from two seconds on, at most ten times a
// second; gone when it ends. Of one thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace kerf::apps {

class SignOfLife {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Options {
    bool terminal = false;
    std::function<int()> width;                     // of the terminal, in columns
    std::function<Time()> now;                      // empty: the clock
    std::function<void(const std::string&)> write;  // to the standard error output, flushed
  };

  explicit SignOfLife(Options options);
  ~SignOfLife();
  SignOfLife(const SignOfLife&) = delete;
  SignOfLife& operator=(const SignOfLife&) = delete;

  // "planning, 3 s: hybrid in 4 stages": what it is at from now on.
  void tell(const std::string& doing, const std::string& what);

 private:
  Time now() const { return options_.now ? options_.now() : std::chrono::steady_clock::now(); }

  Options options_;
  Time begun_;
  Time drawn_{};
  bool line_ = false;  // there is one
};

// On this process's standard error output.
SignOfLife::Options life_on_stderr();

}  // namespace kerf::apps
