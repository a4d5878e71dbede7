// Shares of results that workers leave in files of their own while a run goes on, and which are
// joined when it is over: records of a micro-batch each, that say which rows they are.
#pragma once

#include <filesystem>
#include <set>
#include <utility>

#include "schedmp/training/executor.h"

namespace kerf::schedmp {

// Of part `part`, of the result of that value.
std::filesystem::path result_file(const std::filesystem::path& folder, partitioner::ValueId value,
                                  int part);
// Of one worker.
class ResultWriter {
 public:
  explicit ResultWriter(std::filesystem::path folder) : folder_(std::move(folder)) {}
  // Appends to the share's file, in which rows ascend; `first`: row of the run's first. The first
  // time, what is there from that row on goes: where a worker was lost, rows are computed again.
  // Throws Error{kUnavailable}.
  void write(const partitioner::Model& model, const GivenResult& given, int64_t first);

 private:
  std::filesystem::path folder_;
  std::set<std::filesystem::path> begun_;
};

}  // namespace kerf::schedmp
