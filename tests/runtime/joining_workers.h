// Workers that connect to a crew by themselves: for tests of who joins and who is lost.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "runtime/crew.h"
#include "runtime/process.h"
#include "tests/runtime/crew_of_words.h"
#include "tests/support/test_worker.h"

namespace kerf::tests {

inline runtime::Process start_worker(const std::string& address,
                                     const std::vector<std::string>& more = {}) {
  std::vector<std::string> command{KERF_TEST_WORKER, "--connect", address};
  command.insert(command.end(), more.begin(), more.end());
  return runtime::Process::spawn(command);
}

// It listens where the system has a port free.
inline runtime::CrewOptions listening_options(int workers) {
  runtime::CrewOptions options;
  options.workers = workers;
  options.transport = runtime::TransportKind::kTcp;
  options.listen = "tcp://127.0.0.1:*";
  options.identity = test_identity();
  options.assemble_timeout = std::chrono::seconds(20);
  return options;
}

inline void start(runtime::Crew& crew, int workers) {
  crew.start("words", std::vector<std::string>(static_cast<size_t>(workers)), no_channels(workers));
}

}  // namespace kerf::tests
