// Programs as those see them who run them: messages are bytes. Turns a program's halves into such.
#pragma once

#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>

#include "runtime/error.h"
#include "runtime/wire.h"
#include "schedmp/program.h"

namespace kerf::schedmp {

struct EncodedMessages {
  using Job = std::string;
  using Task = std::string;
  using Result = std::string;
};
using EncodedProgram = SchedulerHalf<EncodedMessages>;

// Tells messages apart, in one build: what they are called, and of which types they are.
uint32_t signature_of(std::initializer_list<const std::type_info*> types);
template <class Messages>
uint32_t signature_of() {
  return signature_of({&typeid(Messages), &typeid(typename Messages::Job),
                       &typeid(typename Messages::Task), &typeid(typename Messages::Result)});
}

// A job with the signature of the messages that its sender means.
template <class Job>
struct SignedJob {
  uint32_t signature = 0;
  Job job = {};

  template <class Archive>
  void serialize(Archive& archive) {
    archive(signature, job);
  }
};
// Throws Error{kUsage} where a job that begins so is for other messages.
void check_signature(std::string_view job, uint32_t signature);

// The scheduler's half of `program`, which outlives this.
template <class M>
class Encoded final : public EncodedProgram {
 public:
  explicit Encoded(SchedulerHalf<M>& program) : program_(program) {}

  std::string name() const override { return program_.name(); }
  std::string job(int worker) override {
    return runtime::encode(SignedJob<typename M::Job>{signature_of<M>(), program_.job(worker)});
  }
  LaneTable lanes(int workers) const override { return program_.lanes(workers); }
  void channels_go_over(const TransportTable& transports) override {
    program_.channels_go_over(transports);
  }
  int depth() const override { return program_.depth(); }
  bool unordered() const override { return program_.unordered(); }

  Decision schedule(int64_t round) override {
    auto decision = program_.schedule(round);
    if (std::holds_alternative<Wait>(decision)) return Wait{};
    if (std::holds_alternative<Done>(decision)) return Done{};
    std::vector<Task> tasks;
    for (const auto& each : std::get<0>(decision))
      tasks.push_back({each.worker, runtime::encode(each.payload), each.id});
    return tasks;
  }
  void aggregate(int64_t round, std::vector<Result> results) override {
    std::vector<typename SchedulerHalf<M>::Result> decoded;
    for (const Result& each : results)
      decoded.push_back({each.worker, decoded_of(round, each), each.id});
    program_.aggregate(round, std::move(decoded));
  }

 private:
  typename M::Result decoded_of(int64_t round, const Result& result) const {
    try {
      return runtime::decode<typename M::Result>(result.payload);
    } catch (const Error& error) {
      throw Error(error.code(), error.message(),
                  kerf::format("program {}, round {}, a result of worker {}", name(), round,
                               result.worker));
    }
  }

  SchedulerHalf<M>& program_;
};

// A worker's half, behind the interface that the floor below calls.
template <class Messages>
class DecodingHandler final : public runtime::Handler {
 public:
  explicit DecodingHandler(std::unique_ptr<WorkerHalf<Messages>> half) : half_(std::move(half)) {}

  void start(runtime::Workplace& workplace, std::string_view job) override {
    check_signature(job, signature_of<Messages>());
    half_->start(workplace, runtime::decode<SignedJob<typename Messages::Job>>(job).job);
  }
  std::string update(std::string_view task) override {
    return runtime::encode(half_->update(runtime::decode<typename Messages::Task>(task)));
  }

 private:
  std::unique_ptr<WorkerHalf<Messages>> half_;
};

template <class Messages>
std::unique_ptr<runtime::Handler> handler_of(std::unique_ptr<WorkerHalf<Messages>> half) {
  return std::make_unique<DecodingHandler<Messages>>(std::move(half));
}

// For ProgramFactories: {"count", worker_half<CountWorker>}.
template <class Half>
std::unique_ptr<runtime::Handler> worker_half() {
  return handler_of<typename Half::Messages>(std::make_unique<Half>());
}

}  // namespace kerf::schedmp
