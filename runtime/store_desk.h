// What the scheduler does for one worker of another host: opens, reads and writes files for it
// (store_messages.h), as the run's rules allow. No thread and no message in here.
//
// Of files that were not committed nothing is left when it ends.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "runtime/error.h"
#include "runtime/free_memory.h"
#include "runtime/store.h"
#include "runtime/store_messages.h"
#include "runtime/store_rules.h"

namespace kerf::runtime {

class StoreDesk {
 public:
  // `rules` outlive this. `leaves`: bytes of the host's memory that files kept in it do not take.
  StoreDesk(int worker, const StoreRules& rules, int64_t leaves = memory_to_leave())
      : worker_(worker), rules_(rules), store_(leaves) {}

  // What the system refuses is an answer, and once it refused a file to be written, so is all that
  // follows of that file. Throws Error{kProtocol} for what no worker of ours asks.
  StoreAnswer answer(const StoreRequest& request);
  // Of which file it is; "a file" where that is not open.
  std::string path_of(const StoreRequest& request) const;

 private:
  struct File {
    std::string path = {};
    std::unique_ptr<ReadableFile> readable = {};
    std::unique_ptr<WritableFile> writable = {};
    std::optional<Error> failure = {};  // of opening or writing it
    bool writes = false;
    bool committed = false;
  };
  void open(const StoreRequest& request, StoreAnswer& answer);
  static void read(File& file, const StoreRequest& request, StoreAnswer& answer);
  static void write(File& file, const StoreRequest& request);
  File& file_of(const StoreRequest& request);
  void expect_number(const StoreRequest& request) const;

  const int worker_;
  const StoreRules& rules_;
  LocalStore store_;
  std::map<int32_t, File> files_;  // by the worker's number
};

}  // namespace kerf::runtime
