// What can be read, but does not hold together: a plan whose figures, layouts or routes are not
// those that its stages come to, or that is another model's, or names what this one has not. An
// error in the request (kUsage), told from what could not be read at all. Plain; thrown by readers.
#pragma once

#include <string>
#include <utility>

#include "runtime/error.h"

namespace kerf::partitioner {

class Unsound : public Error {
 public:
  Unsound(std::string message, std::string where)
      : Error(ErrorCode::kUsage, std::move(message), std::move(where)) {}
};

}  // namespace kerf::partitioner
