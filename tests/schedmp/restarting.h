// Crews of processes of this test program, and runs of rings that go on behind a loss.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <memory>
#include <vector>

#include "schedmp/scheduler.h"
#include "tests/schedmp/crew_of_this_program.h"
#include "tests/schedmp/ring.h"

namespace kerf::schedmp {

inline const ProgramFactories kPrograms{{"ring", worker_half<RingWorker>},
                                        {"frail", worker_half<FrailWorker>},
                                        {"fickle", worker_half<FickleWorker>},
                                        {"failing", worker_half<FailingWorker>},
                                        {"full", worker_half<FullWorker>},
                                        {"cramped", worker_half<CrampedWorker<true>>},
                                        {"cramped once", worker_half<CrampedWorker<false>>},
                                        {"mortal", worker_half<MortalWorker<false>>},
                                        {"fickle and mortal", worker_half<MortalWorker<true>>},
                                        {"deviceless", worker_half<DevicelessWorker>},
                                        {"sharing", worker_half<SharingWorker>}};

inline std::unique_ptr<runtime::Crew> crew_of(int workers, runtime::TransportKind transport) {
  return crew_of_this_program(kPrograms, workers, transport);
}

inline LoopOptions restarting(
    std::vector<int64_t>* begun_before = nullptr,
    std::chrono::milliseconds commit_every = std::chrono::milliseconds(1)) {
  LoopOptions options;
  options.restarts.allowed = true;
  options.restarts.commit_every = commit_every;
  if (begun_before != nullptr)
    options.restarts.lost = [=](const Error& loss, const RoundAndSteps& place) {
      EXPECT_EQ(loss.code(), ErrorCode::kLost);
      begun_before->push_back(place.round);
    };
  return options;
}

inline uint64_t undisturbed(const RingOptions& options) {
  const auto crew = crew_of(options.workers, runtime::TransportKind::kInproc);
  Ring program(options);
  run(program, *crew);
  crew->stop();
  return program.place();
}

inline void kill_worker(const runtime::Crew& crew, int worker) {
  ::kill(crew.workers()[static_cast<size_t>(worker)].pid, SIGKILL);
}

}  // namespace kerf::schedmp
