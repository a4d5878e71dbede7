// What a piece of code throws, as a value to look at.
#pragma once

#include <optional>
#include <utility>

#include "runtime/error.h"

namespace kerf::tests {

// The kerf::Error that `body` throws; empty if it throws none. Other exceptions pass through.
template <class Body>
std::optional<Error> error_of(Body&& body) {
  try {
    std::forward<Body>(body)();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

}  // namespace kerf::tests
