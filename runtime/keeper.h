// A keeper: the process that somebody starts on a host to have a worker there. It computes nothing
// and speaks with nobody: it starts the worker, starts another when that is killed or has lost its
// scheduler or its device, and ends as the worker ends otherwise. What a worker held is not its
// business: the next one is given that by the scheduler.
//
// A worker with a keeper was started with kKeeperFlag and the number of that process; those that a
// scheduler starts itself have theirs in it.
#pragma once

#include <string>
#include <vector>

#include "runtime/error.h"

namespace kerf::runtime {

inline constexpr const char* kKeeperFlag = "--keeper";
// This process becomes the keeper of workers of the same program and arguments, and kKeeperFlag
// behind those. Returns the exit code of the last one, or 1 where each ends as soon as it was
// started. Says on the standard error output what it does. Throws Error{kUnavailable} where none
// can be started. No ZeroMQ context may exist.
int keep_worker(int argc, char** argv);
// The same of that command, a program (a path) and its arguments; this process keeps its title.
int keep_worker(std::vector<std::string> command);

// With what a worker ends that `keeper` keeps (0: nobody does), behind this error.
int end_of_worker(const Error& error, int keeper);

// The kernel kills this process when its keeper ends, whatever became of that tie since it was
// spawned: a process that begins again (process.h) loses it. To be called by the first thread.
// Throws Error{kLost} where the keeper has ended.
void end_with(int keeper);

}  // namespace kerf::runtime
