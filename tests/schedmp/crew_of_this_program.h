// Workers that are processes of the test program itself: its main() serves as one of them where it
// is started as such (serve_if_worker).
#pragma once

#include <memory>

#include "runtime/process.h"
#include "schedmp/scheduler.h"

namespace kerf::schedmp {

inline std::unique_ptr<runtime::Crew> crew_of_this_program(const ProgramFactories& programs,
                                                           int workers,
                                                           runtime::TransportKind transport) {
  runtime::CrewOptions options;
  options.workers = workers;
  options.transport = transport;
  options.handlers = handlers_of(programs);
  options.worker_command = {runtime::program_path(), "worker"};
  options.identity = identity();
  return runtime::Crew::assemble(options);
}

}  // namespace kerf::schedmp
