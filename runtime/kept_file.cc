#include "runtime/kept_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "runtime/error.h"

namespace kerf::runtime {

KeptFile::KeptFile(const std::string& label) : file_(::memfd_create(label.c_str(), MFD_CLOEXEC)) {
  if (file_.number() < 0)
    throw Error(ErrorCode::kUnavailable,
                kerf::format("no file in memory for {}: {}", label, std::strerror(errno)));
}

std::string KeptFile::path() const {
  return kerf::format("/proc/{}/fd/{}", ::getpid(), file_.number());
}

}  // namespace kerf::runtime
