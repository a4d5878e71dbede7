// Shares of results that workers leave in files of their own while a run goes on, and which are
// joined when it is over: records of a micro-batch each, that say which rows they are.
#pragma once

#include <filesystem>

#include "schedmp/training/executor.h"

namespace kerf::schedmp {

// Of part `part`, of the result of that value.
std::filesystem::path result_file(const std::filesystem::path& folder, partitioner::ValueId value,
                                  int part);
// Appends to the share's file; `first`: row of the run's first. Throws Error{kUnavailable}.
void write_result(const std::filesystem::path& folder, const partitioner::Model& model,
                  const GivenResult& given, int64_t first);

}  // namespace kerf::schedmp
