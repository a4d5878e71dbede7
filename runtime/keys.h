// Keys by which the scheduler and the workers of a run know each other across a network (CurveZMQ:
// Curve25519 for who is who, and every byte of the control connection encrypted).
//
//   DIR/scheduler.secret   scheduler   who it is
//   DIR/workers.allowed    scheduler   public keys, one a line: the workers that may join
//   DIR/worker.secret      worker      who it is: one key for all of them, or each host's own
//   DIR/scheduler.public   worker      the scheduler that it takes work from
//
// A key is 32 bytes, written as 40 characters of Z85 (ZeroMQ RFC 32). What a file says is hostile
// until checked: who may read and write it, and write its folder, that it is no link, its size and
// every character. Thread-safe.
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace kerf::runtime {

struct SchedulerKeys {
  std::string secret_key;         // Z85
  std::set<std::string> allowed;  // public keys of workers, 32 bytes each
};

struct WorkerKeys {
  std::string secret_key;  // Z85, as all of these
  std::string public_key;
  std::string scheduler_key;  // public
};

// Makes the folder, for its owner alone, and keys in it. Throws Error{kUsage} if there is something
// by that name, Error{kUnavailable} if the system refuses; then nothing is left behind.
void make_keys(const std::filesystem::path& folder);

// Both throw Error{kUsage} that names the folder or the file, and the line where it has several.
SchedulerKeys read_scheduler_keys(const std::filesystem::path& folder);
WorkerKeys read_worker_keys(const std::filesystem::path& folder);

}  // namespace kerf::runtime
