// What the crew's tests let workers do. A task is a few words:
//
//   echo TEXT       answers TEXT
//   sum A B         answers A + B
//   sleep MS        answers after MS milliseconds, the compute thread being busy
//   pretend MS      the same, and it says that it is idle
//   linger MS       what it has takes MS milliseconds to tear down at the end
//   perish          tearing down what it has kills the process by SIGKILL
//   fail TEXT       throws Error{kInternal, TEXT}
//   lose TEXT       throws Error{kDeviceLost, TEXT}
//   exit CODE       the process ends
//   die             the process is killed by SIGKILL
//   send P TEXT     sends TEXT over the channel to worker P
//   receive P       answers what comes over the channel from worker P
//   write F TEXT    writes TEXT to the file F
//   read F          answers what is in the file F
//   store F TEXT    the same by its store,
//   fetch F         and so this
//   pour F MIB      writes so many MiB to the file F of its store, and never ends it
//   stop            the process stops itself (SIGSTOP)
//   trace N         records N spans and keeps them
#pragma once

#include <string>

#include "runtime/crew.h"

namespace kerf::tests {

// Programs: "words" (the above) and "null" (answers nothing).
std::unique_ptr<runtime::Handler> make_test_handler(const std::string& program);

// The identity of all of them.
runtime::Identity test_identity();

// Of a crew of test workers; those that are processes run `program`.
runtime::CrewOptions crew_options(runtime::TransportKind transport, int workers,
                                  const std::string& program);

// Lets the crew run until the worker reports that it does or awaits something with `text` in it;
// false if it does not within ten seconds. No results may be under way.
bool wait_for_report(runtime::Crew& crew, size_t worker, const std::string& text);

// The error that a run of the crew ends with.
Error end_of(runtime::Crew& crew);

// main() of a worker process: --connect ADDRESS [--index I] [--device NAME] [--host NAME that it
// says it is on, or --container NAME that it says it is in, of this host] [--keep: of its keeper].
// Returns the exit code.
int run_test_worker(int argc, char** argv);

}  // namespace kerf::tests
