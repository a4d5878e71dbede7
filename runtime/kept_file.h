// A file in memory that lives as long as this, whoever writes it: what a worker leaves in it, who
// takes its place finds there. It has no name in the file system, so nothing of it can be left
// behind.
#pragma once

#include <string>

#include "runtime/open_file.h"

namespace kerf::runtime {

class KeptFile {
 public:
  // Empty. `label` shows in /proc. Throws Error{kUnavailable}.
  explicit KeptFile(const std::string& label);

  // By which processes of the same user in the same namespaces open it, as long as it lives.
  std::string path() const;

 private:
  OpenFile file_;
};

}  // namespace kerf::runtime
