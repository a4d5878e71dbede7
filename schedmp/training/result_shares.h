// Shares of results that workers leave in files of their own while a run goes on, and which are
// joined when it is over: records of a micro-batch each, that say which rows they are.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "runtime/store.h"
#include "schedmp/training/executor.h"

namespace kerf::schedmp {

// Of part `part`, of the result of that value.
std::filesystem::path result_file(const std::filesystem::path& folder, partitioner::ValueId value,
                                  int part);
// Of one worker.
class ResultWriter {
 public:
  // `store` outlives this.
  ResultWriter(runtime::Store& store, std::filesystem::path folder)
      : store_(store), folder_(std::move(folder)) {}
  // Appends to the share's file, in which rows ascend; `first`: row of the run's first. The first
  // time, what is there from that row on goes: where a worker was lost, rows are computed again.
  // Throws Error{kUnavailable} that names the file.
  void write(const GivenResult& given, int64_t first);

 private:
  runtime::Store& store_;
  std::filesystem::path folder_;
  std::map<std::filesystem::path, std::unique_ptr<runtime::WritableFile>> files_;
};

}  // namespace kerf::schedmp
