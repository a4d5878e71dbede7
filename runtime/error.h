// The three kinds of error, and how each travels.
//
// A bug throws through KERF_CHECK. An environment failure or wrong input throws kerf::Error; it is
// caught only at the top of a worker's loop, in the scheduler's collect step and in main(). An
// expected outcome (a deadline passed, an infeasible plan) is a [[nodiscard]] optional or result.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

#include "runtime/format.h"

namespace kerf {

enum class ErrorCode {
  kUsage,        // wrong input: a flag, a file, a model, a plan; the message names the way out
  kInfeasible,   // a request that no plan can meet (memory cap, more workers than operators)
  kUnavailable,  // an address in use, a device, a library or a peer that is not there
  kTimeout,      // somebody did not answer in time
  kLost,         // a worker died or stopped answering
  kDeviceLost,   // a device that was there failed under its process, which gets no more of it
  kInterrupted,  // Ctrl-C, or the run was cancelled
  kProtocol,     // a peer broke the protocol
  kInternal,     // a bug
};

// The exit code of a process that ends with this error: 2 for what the person who gave the command
// can put right (wrong input, an infeasible request, an address in use), 130 for an interrupt, 1
// for all else.
int exit_code(ErrorCode code);
std::string_view to_string(ErrorCode code);

// `where` is free text that names the place: "lenet5/conv1", "2F0@worker1", "plan.json:12".
// what() is "where: message".
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, std::string message, std::string where = {});

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& where() const { return where_; }

 private:
  ErrorCode code_;
  std::string message_;
  std::string where_;
};

[[noreturn]] void throw_check_failure(std::string_view condition, std::string message,
                                      std::source_location location);

}  // namespace kerf

// Throws Error{kInternal} that names the condition and the source line. For bugs only.
#define KERF_CHECK(condition, ...)                                                \
  do {                                                                            \
    if (!(condition)) [[unlikely]]                                                \
      ::kerf::throw_check_failure(#condition, ::kerf::check_message(__VA_ARGS__), \
                                  std::source_location::current());               \
  } while (false)
