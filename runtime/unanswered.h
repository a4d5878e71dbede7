// What a worker says of a scheduler that does not answer it, for whoever started that worker.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "runtime/control.h"

namespace kerf::runtime {

struct Unanswered {
  // For so long the worker tries. That nobody is there is told behind a twentieth of it: who waits
  // for long expects to.
  std::chrono::milliseconds patience{60'000};
  // Told once at most what stands between the two, as far as it can be seen, and what to look at:
  // within 3 s where somebody is there. By the thread that calls receive().
  std::function<void(const std::string&)> tell;
};

// As make_control_client(address, keys).
std::unique_ptr<ControlClient> make_control_client(const std::string& address,
                                                   const std::string& keys, Unanswered unanswered);

}  // namespace kerf::runtime
