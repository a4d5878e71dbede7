// A crew of threads in this process: no sockets, no children; what sanitizers can follow.
#pragma once

#include <memory>

#include "runtime/crew.h"
#include "schedmp/program.h"

namespace kerf::tests {

inline std::unique_ptr<runtime::Crew> inproc_crew(int workers,
                                                  const schedmp::ProgramFactories& programs,
                                                  runtime::DeviceFactory devices = {}) {
  runtime::CrewOptions options;
  options.workers = workers;
  options.transport = runtime::TransportKind::kInproc;
  options.handlers = schedmp::handlers_of(programs);
  if (devices) options.make_device = std::move(devices);
  return runtime::Crew::assemble(options);
}

}  // namespace kerf::tests
