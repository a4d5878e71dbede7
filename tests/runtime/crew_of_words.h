// A crew of test workers, processes or threads, started on a job: for tests of crews.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/crew.h"
#include "tests/support/test_worker.h"

namespace kerf::tests {

using Channels = std::vector<std::vector<std::vector<runtime::Lane>>>;

inline runtime::CrewOptions options_for(runtime::TransportKind transport, int workers) {
  return crew_options(transport, workers, KERF_TEST_WORKER);
}

inline Channels no_channels(int workers) {
  const auto n = static_cast<size_t>(workers);
  return {n, std::vector<std::vector<runtime::Lane>>(n)};
}

// Everybody to everybody, one lane.
inline Channels all_channels(int workers) {
  const auto n = static_cast<size_t>(workers);
  const std::vector<runtime::Lane> one{{.slot_bytes = 4096, .slots = 2}};
  return {n, std::vector<std::vector<runtime::Lane>>(n, one)};
}

inline std::unique_ptr<runtime::Crew> start_crew(const runtime::CrewOptions& options,
                                                 bool channels = false) {
  auto crew = runtime::Crew::assemble(options);
  crew->start("words", std::vector<std::string>(static_cast<size_t>(options.workers), "the job"),
              channels ? all_channels(options.workers) : no_channels(options.workers));
  return crew;
}

// A crew where the system has a port free: `begin` is told where, once it listens.
inline std::unique_ptr<runtime::Crew> assemble_anywhere(
    runtime::CrewOptions options, const std::function<void(const std::string& address)>& begin,
    const runtime::Crew::Waiting& waiting = {}) {
  options.listen = "tcp://127.0.0.1:*";
  bool begun = false;
  return runtime::Crew::assemble(options, [&](int here, const std::string& address) {
    if (!std::exchange(begun, true)) begin(address);
    if (waiting) waiting(here, address);
  });
}

// What a process tells another by a pipe; what is read is empty where nobody writes any more.
inline void write_line(int pipe, const std::string& text) {
  const std::string line = text + "\n";
  if (::write(pipe, line.data(), line.size()) != static_cast<ssize_t>(line.size())) ::_exit(1);
}
inline std::string read_line(int pipe) {
  std::string line;
  for (char next = 0; ::read(pipe, &next, 1) == 1 && next != '\n';) line += next;
  return line;
}

// Of at least `count` results, if they come within ten seconds of each other.
inline std::vector<std::string> take(runtime::Crew& crew, size_t count) {
  std::vector<std::string> all;
  while (all.size() < count) {
    auto batch = crew.next(runtime::after(std::chrono::seconds(10)));
    if (!batch) break;
    for (auto& result : batch->results) all.push_back(std::move(result));
  }
  return all;
}

inline double seconds_since(runtime::Clock::time_point begin) {
  return std::chrono::duration<double>(runtime::Clock::now() - begin).count();
}

inline bool is_gone(int pid) { return ::kill(pid, 0) != 0; }

}  // namespace kerf::tests
