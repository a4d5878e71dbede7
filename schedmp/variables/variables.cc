#include "schedmp/variables/variables.h"

#include "runtime/error.h"

namespace kerf::schedmp {

int64_t checked_variables(int64_t variables) {
  if (variables < 1 || variables > kMostVariables)
    throw Error(
        ErrorCode::kUsage,
        format("there are {} variables to choose from; there must be 1 to 2^32", variables));
  return variables;
}

}  // namespace kerf::schedmp
