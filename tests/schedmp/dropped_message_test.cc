// A message that is lost on its way stops a training, and the scheduler says who waits for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/crew.h"
#include "runtime/error.h"
#include "schedmp/scheduler.h"
#include "schedmp/schedules.h"
#include "schedmp/training/training.h"
#include "tests/schedmp/trained.h"

namespace kerf::schedmp {
namespace {

using namespace std::chrono_literals;
using runtime::Deadline;
using testing::AllOf;
using testing::HasSubstr;

// Loses the message of this number; all others go their way.
class LosingSender final : public runtime::SendChannel {
 public:
  LosingSender(runtime::SendChannel& real, int lost) : real_(real), left_(lost) {}

  std::optional<runtime::Slot> acquire(int lane, size_t bytes, Deadline deadline) override {
    return real_.acquire(lane, bytes, deadline);
  }
  void commit(const runtime::Slot& slot, const runtime::Tag& tag,
              runtime::Stream* stream) override {
    if (left_-- == 0) return real_.abandon(slot);
    real_.commit(slot, tag, stream);
  }
  void abandon(const runtime::Slot& slot) override { real_.abandon(slot); }
  void retain(const runtime::Slot& slot) override { real_.retain(slot); }
  void retire(const runtime::Slot& slot) override { real_.retire(slot); }
  runtime::ChannelCounters counters() const override { return real_.counters(); }

 private:
  runtime::SendChannel& real_;
  int left_;
};

class LosingEndpoint final : public runtime::Endpoint {
 public:
  LosingEndpoint(runtime::Endpoint& real, int peer, int lost)
      : real_(real), peer_(peer), sender_(real.sender(peer), lost) {}

  std::string address() const override { return real_.address(); }
  void open(const runtime::Wiring& wiring, Deadline deadline) override {
    real_.open(wiring, deadline);
  }
  void wait(Deadline deadline) override { real_.wait(deadline); }
  void wake() override { real_.wake(); }
  runtime::SendChannel& sender(int peer) override {
    return peer == peer_ ? sender_ : real_.sender(peer);
  }
  runtime::ReceiveChannel& receiver(int peer) override { return real_.receiver(peer); }
  void interrupt() override { real_.interrupt(); }
  bool drain(Deadline deadline) override { return real_.drain(deadline); }
  size_t slot_bytes() const override { return real_.slot_bytes(); }
  runtime::ChannelCounters counters() const override { return real_.counters(); }

 private:
  runtime::Endpoint& real_;
  int peer_;
  LosingSender sender_;
};

// A worker of a training; worker 0 loses a message to worker 1.
class Losing final : public runtime::Handler {
 public:
  Losing(std::unique_ptr<runtime::Handler> real, int lost) : real_(std::move(real)), lost_(lost) {}

  void start(runtime::Workplace& workplace, std::string_view job) override {
    if (workplace.worker != 0) return real_->start(workplace, job);
    endpoint_ = std::make_unique<LosingEndpoint>(workplace.endpoint, 1, lost_);
    workplace_ = std::make_unique<runtime::Workplace>(runtime::Workplace{
        workplace.worker, workplace.workers, workplace.threads, workplace.device, workplace.stream,
        *endpoint_, workplace.activity, workplace.trace, workplace.store, workplace.service});
    real_->start(*workplace_, job);
  }
  std::string update(std::string_view task) override { return real_->update(task); }

 private:
  std::unique_ptr<LosingEndpoint> endpoint_;
  std::unique_ptr<runtime::Workplace> workplace_;
  std::unique_ptr<runtime::Handler> real_;
  int lost_;
};

Error end_of_training(int lost) {
  const tests::Case c{.workers = 2, .steps = 20};
  const auto model = tests::make_model(c.source);
  const auto plan = tests::plan_of(model, c);
  TrainingOptions options;
  options.model_source = c.source;
  options.dataset = "rows";
  options.batch = c.batch;
  options.steps = c.steps;
  options.epochs = 1000;
  Training program(tests::factories(), model, plan, make_schedule(c.schedule, model, plan),
                   options);
  const auto handlers =
      handlers_of({{"training", [] { return training_worker(tests::factories()); }}});
  runtime::CrewOptions crew_options;
  crew_options.workers = 2;
  crew_options.transport = runtime::TransportKind::kInproc;
  crew_options.deadlock = 1s;
  crew_options.handlers = [=](const std::string& name) {
    return std::make_unique<Losing>(handlers(name), lost);
  };
  const auto crew = runtime::Crew::assemble(crew_options);
  try {
    run(program, *crew, {3, 1});
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kInternal, "the training ended in order", "");
}

// The third message of stage 0 is the value of micro-batch 2 in step 0.
TEST(DroppedMessage, IsToldByWhoWaitsForIt) {
  const auto begin = runtime::Clock::now();
  const Error error = end_of_training(2);
  EXPECT_LT(runtime::Clock::now() - begin, 15s) << "not as long as who computes may take";
  EXPECT_EQ(error.code(), ErrorCode::kLost);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("everybody who is at work waits"),
                                     HasSubstr("of micro-batch 2 from worker 0"),
                                     HasSubstr("while doing step 0: 1F2 (behind 1F0 1B0 1F1 1B1)"),
                                     HasSubstr("while doing step 0: 0B2 (behind 0F0 0F1 0B0 0F2")));
}

}  // namespace
}  // namespace kerf::schedmp
