// Names the two workers in the error of whatever opens the channels between them.
#pragma once

#include <string>

#include "runtime/error.h"

namespace kerf::runtime {

// What `call` returns. Its Error is thrown on with `self` as the place, `what` was tried, the peer,
// and the place that it named itself.
template <class Call>
auto with_peer(const std::string& self, int peer, const char* what, const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    throw Error(error.code(), kerf::format("{} worker {}: {}", what, peer, error.what()), self);
  }
}

}  // namespace kerf::runtime
