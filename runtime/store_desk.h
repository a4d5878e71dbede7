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
#include "runtime/store.h"
#include "runtime/store_messages.h"
#include "runtime/store_rules.h"

namespace kerf::runtime {

// A sixteenth of the host's memory, or of what cgroups let this process have of it.
int64_t memory_to_leave();

class StoreDesk {
 public:
  // `rules` outlive this. `leaves`: bytes of the host's memory that files kept in it do not take,
  // since without any its kernel ends somebody, who may be the scheduler.
  StoreDesk(int worker, const StoreRules& rules, int64_t leaves = memory_to_leave())
      : worker_(worker), rules_(rules), leaves_(leaves) {}

  // What the system refuses is an answer, and once it refused a file to be written, so is all that
  // follows of that file. Throws Error{kProtocol} for what no worker of ours asks.
  StoreAnswer answer(const StoreRequest& request);

 private:
  struct File {
    std::unique_ptr<ReadableFile> readable = {};
    std::unique_ptr<WritableFile> writable = {};
    std::optional<Error> failure = {};  // of opening or writing it
    bool writes = false;
    bool committed = false;
    bool in_memory = false;
    size_t unseen = 0;  // bytes until the next look whether memory has room
  };
  void open(const StoreRequest& request, StoreAnswer& answer);
  static void read(File& file, const StoreRequest& request, StoreAnswer& answer);
  void write(File& file, const StoreRequest& request) const;
  void expect_room(File& file, size_t bytes) const;
  File& file_of(const StoreRequest& request);
  void expect_number(const StoreRequest& request) const;

  const int worker_;
  const StoreRules& rules_;
  const int64_t leaves_;
  LocalStore store_;
  std::map<int32_t, File> files_;  // by the worker's number
};

}  // namespace kerf::runtime
