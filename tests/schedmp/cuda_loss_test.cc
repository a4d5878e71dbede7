// R15 of faults, of GPUs: a kernel that goes astray costs a worker its device, and the run goes on
// to the same bits with another process. Workers are processes; skipped where there is no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "ops/workbench.h"
#include "tests/schedmp/crew_of_this_program.h"
#include "tests/schedmp/ring.h"
#include "tests/support/no_gpu.h"
#include "tests/support/temporary_folder.h"

namespace kerf::schedmp {
namespace {

// Adds up its steps on the GPU; before the third, a kernel of worker 1 writes where nothing is,
// once for the file that KERF_TEST_ONCE names.
class StrayWorker : public KeepsState<StrayWorker, WorkerHalf<RingMessages>> {
 public:
  void start(runtime::Workplace& workplace, const int64_t&) override {
    workplace_ = &workplace;
    bench_ = ops::make_workbench(workplace.device, workplace.stream);
    memory_ = workplace.device.allocate(2 * sizeof(double));
  }
  uint64_t update(const RingTask& task) override {
    if (workplace_->worker == 1 && ++tasks_ == 3 && is_first()) go_astray();
    const std::array<double, 2> before{static_cast<double>(place_), 0};
    const auto term = static_cast<float>(task.told % 1000);
    runtime::Stream& stream = workplace_->stream;
    stream.copy(memory_.data(), before.data(), sizeof before);
    stream.copy(memory_.data() + sizeof(double), &term, sizeof term);
    bench_->add_scalar({ops::DType::kFloat32, {}, memory_.data() + sizeof(double)},
                       reinterpret_cast<double*>(memory_.data()));
    double sum = 0;
    stream.copy(&sum, memory_.data(), sizeof sum);
    stream.synchronize();
    return place_ = static_cast<uint64_t>(sum);
  }
  template <class Archive>
  void state(Archive& archive) {
    archive(place_);
  }

 private:
  static bool is_first() {
    const char* const once = std::getenv("KERF_TEST_ONCE");
    return once != nullptr && runtime::OpenFile(::open(once, O_CREAT | O_EXCL, 0600)).number() >= 0;
  }
  void go_astray() {
    auto* const nowhere = reinterpret_cast<std::byte*>(uintptr_t{1} << 20U);
    bench_->add_scalar({ops::DType::kFloat32, {}, nowhere}, reinterpret_cast<double*>(nowhere));
    workplace_->stream.synchronize();
  }

  runtime::Workplace* workplace_ = nullptr;
  std::unique_ptr<ops::Workbench> bench_;
  runtime::Buffer memory_;
  uint64_t place_ = 1;
  int tasks_ = 0;
};

const ProgramFactories kPrograms{{"stray", worker_half<StrayWorker>}};

uint64_t place_of_run(int64_t& restarts, std::vector<std::string>& lost) {
  runtime::CrewOptions options;
  options.workers = 2;
  options.transport = runtime::TransportKind::kShm;
  options.devices = {"cuda:0"};
  options.handlers = handlers_of(kPrograms);
  options.worker_command = {runtime::program_path(), "worker"};
  options.identity = identity();
  const auto crew = runtime::Crew::assemble(options);
  Named program("stray", {.workers = 2, .rounds = 8});
  LoopOptions how;
  how.restarts.allowed = true;
  how.restarts.lost = [&](const Error& loss, const RoundAndSteps&) {
    lost.emplace_back(loss.what());
  };
  restarts = run(program, *crew, how).restarts;
  crew->stop();
  return program.place();
}

TEST(R15, AKernelThatGoesAstrayCostsItsWorkerTheDeviceAndTheRunGoesOnToTheSameBits) {
  if (const std::string why = tests::no_gpu(); !why.empty()) GTEST_SKIP() << why;
  int64_t restarts = 0;
  std::vector<std::string> lost;
  const uint64_t whole = place_of_run(restarts, lost);
  EXPECT_EQ(restarts, 0);
  const tests::TemporaryFolder folder;
  ::setenv("KERF_TEST_ONCE", (folder / "once").c_str(), 1);
  EXPECT_EQ(place_of_run(restarts, lost), whole);
  EXPECT_EQ(restarts, 1);
  EXPECT_THAT(lost, testing::ElementsAre(testing::AllOf(
                        testing::HasSubstr("worker 1"),
                        testing::HasSubstr("was lost: its device failed: cuda:0: "))));
}

}  // namespace
}  // namespace kerf::schedmp

int main(int argc, char** argv) {
  if (const auto code = kerf::schedmp::serve_if_worker(argc, argv, kerf::schedmp::kPrograms))
    return *code;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
