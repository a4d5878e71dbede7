// Programs as those see them who run them: messages are bytes. Turns a program's halves into such.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>

#include "runtime/error.h"
#include "runtime/time.h"
#include "runtime/wire.h"
#include "schedmp/piece_writer.h"
#include "schedmp/program.h"
#include "schedmp/program_trace.h"
#include "schedmp/tables/tables.h"
#include "schedmp/worker_request.h"

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

// A job with the signature of the messages that its sender means, and the program's tables.
template <class Job>
struct SignedJob {
  uint32_t signature = 0;
  std::vector<TableSpec> tables = {};
  Job job = {};

  template <class Archive>
  void serialize(Archive& archive) {
    archive(signature, tables, job);
  }
};
// Throws Error{kUsage} where a job that begins so is for other messages.
void check_signature(std::string_view job, uint32_t signature);

// The kind of a request that came from the scheduler. Throws Error{kProtocol} where it is none.
WorkerRequest kind_of(std::string_view request);
// Begins now.
runtime::Span update_span(int64_t round);

// The scheduler's half of `program`, which outlives this. Where there is a trace, which outlives
// this too, it gets what the program did, and each worker's spans.
template <class M>
class Encoded final : public EncodedProgram {
 public:
  explicit Encoded(SchedulerHalf<M>& program, ProgramTrace* trace = nullptr)
      : program_(program), trace_(trace) {}

  std::string name() const override { return program_.name(); }
  std::string job(int worker) override {
    return runtime::encode(
        SignedJob<typename M::Job>{signature_of<M>(), tables_, program_.job(worker)});
  }
  std::vector<TableSpec> tables(int workers) override {
    tables_ = program_.tables(workers);
    for (TableSpec& table : tables_) complete(table, workers);
    return tables_;
  }
  LaneTable lanes(int workers) const override { return program_.lanes(workers); }
  void channels_go_over(const TransportTable& transports) override {
    program_.channels_go_over(transports);
  }
  int depth() const override { return program_.depth(); }
  bool unordered() const override { return program_.unordered(); }

  Decision schedule(int64_t round) override {
    auto decision = traced("schedule", round, [&] { return program_.schedule(round); });
    if (std::holds_alternative<Wait>(decision)) return Wait{};
    if (std::holds_alternative<Done>(decision)) return Done{};
    std::vector<Task> tasks;
    for (const auto& each : std::get<0>(decision))
      tasks.push_back({each.worker, request(round, each.payload), each.id});
    return tasks;
  }
  void aggregate(int64_t round, std::vector<Result> results) override {
    std::vector<typename SchedulerHalf<M>::Result> decoded;
    for (const Result& each : results)
      decoded.push_back({each.worker, decoded_of(round, each), each.id});
    traced("aggregate", round, [&] { program_.aggregate(round, std::move(decoded)); });
  }
  void compare(int64_t round, const Result& first, const Result& again) override {
    program_.compare(round, plain(round, first), plain(round, again));
  }
  std::vector<std::filesystem::path> folders() const override { return program_.folders(); }
  bool keeps_state() const override { return program_.keeps_state(); }
  bool rests_before(int64_t round) const override { return program_.rests_before(round); }
  bool goes_on_anywhere() const override { return program_.goes_on_anywhere(); }
  int64_t progress(int64_t round) const override { return program_.progress(round); }
  std::string snapshot() override { return program_.snapshot(); }
  void restore(std::string_view snapshot) override { program_.restore(snapshot); }

 private:
  std::string request(int64_t round, const typename M::Task& task) const {
    if (trace_ == nullptr) return request_of(WorkerRequest::kUpdate, runtime::encode(task));
    return request_of(WorkerRequest::kTraced,
                      runtime::encode(TracedTask<typename M::Task>{round, task}));
  }

  template <class Do>
  auto traced(const char* what, int64_t round, const Do& act) {
    const ProgramTrace::Timer timer(trace_, what, round);
    return act();
  }

  typename SchedulerHalf<M>::Result plain(int64_t round, const Result& result) const {
    return {result.worker, traced_of(round, result).result, result.id};
  }

  typename M::Result decoded_of(int64_t round, const Result& result) const {
    auto traced = traced_of(round, result);
    if (trace_ != nullptr) trace_->add(result.worker, std::move(traced.spans));
    return std::move(traced.result);
  }

  // With no spans where there is no trace.
  TracedResult<typename M::Result> traced_of(int64_t round, const Result& result) const {
    try {
      if (trace_ == nullptr) return {{}, runtime::decode<typename M::Result>(result.payload)};
      return runtime::decode<TracedResult<typename M::Result>>(result.payload);
    } catch (const Error& error) {
      throw Error(error.code(), error.message(),
                  kerf::format("program {}, round {}, a result of worker {}", name(), round,
                               result.worker));
    }
  }

  SchedulerHalf<M>& program_;
  ProgramTrace* trace_;
  std::vector<TableSpec> tables_;
};

// A worker's half, behind the interface that the floor below calls.
template <class Messages>
class DecodingHandler final : public runtime::Handler {
 public:
  explicit DecodingHandler(std::unique_ptr<WorkerHalf<Messages>> half) : half_(std::move(half)) {}

  void start(runtime::Workplace& workplace, std::string_view job) override {
    check_signature(job, signature_of<Messages>());
    workplace_ = &workplace;
    auto decoded = runtime::decode<SignedJob<typename Messages::Job>>(job);
    tables_ = std::make_unique<Tables>(workplace, std::move(decoded.tables));
    half_->use_tables(*tables_);
    half_->start(workplace, decoded.job);
    tables_->serve();
  }
  std::string update(std::string_view request) override {
    const std::string_view what = request.substr(std::min<size_t>(1, request.size()));
    switch (kind_of(request)) {
      case WorkerRequest::kTraced:
        return traced(runtime::decode<TracedTask<Task>>(what));
      case WorkerRequest::kSnapshot:
        workplace_->activity.doing("writing its snapshot");
        return runtime::encode(save(runtime::decode<SnapshotOrder>(what), Reach::kTogether));
      case WorkerRequest::kCommit:
        workplace_->activity.doing("keeping its state");
        return runtime::encode(save({std::string(what), kUndivided}, Reach::kAlone));
      case WorkerRequest::kRestore:
        restore_own(runtime::decode<std::vector<PlacedPart>>(what));
        return {};
      case WorkerRequest::kLoad:
        load(runtime::decode<std::vector<PlacedPart>>(what));
        return {};
      case WorkerRequest::kUpdate:
        break;
    }
    std::string result = runtime::encode(half_->update(runtime::decode<Task>(what)));
    tables_->check();
    return result;
  }
  void check() override { tables_->check(); }
  // By restore_from().
  void restore(std::string_view snapshot) { half_->restore(tables_->take_state(snapshot)); }

 private:
  using Task = typename Messages::Task;

  SavedPieces save(const SnapshotOrder& order, Reach reach) {
    if (order.most_bytes < 1)
      throw Error(ErrorCode::kProtocol, kerf::format("pieces of {} bytes", order.most_bytes));
    tables_->rest();
    PieceWriter writer(workplace_->store, order.file, order.most_bytes, alive());
    if (DividedState* const state = half_->divided_state())
      state->save(writer, reach);
    else
      write_pieces(tables_->with_state(half_->snapshot()), writer);
    return writer.finish();
  }

  void restore_own(const std::vector<PlacedPart>& parts) {
    if (half_->divided_state() != nullptr) return load(parts);
    workplace_->activity.doing("reading its snapshot");
    if (parts.empty()) throw Error(ErrorCode::kProtocol, "no file to go on from");
    restore_from(workplace_->store, parts, *this, alive());
  }

  void load(const std::vector<PlacedPart>& parts) {
    DividedState* const state = half_->divided_state();
    if (state == nullptr)
      throw Error(ErrorCode::kProtocol, "files of all workers for one that goes on from its own");
    workplace_->activity.doing("reading its snapshot");
    state->load(parts, alive());
  }

  Alive alive() const {
    return [this] { workplace_->activity.progress(); };
  }

  // A program may add spans of its own meanwhile.
  std::string traced(const TracedTask<Task>& task) {
    runtime::Trace& trace = workplace_->trace;
    trace.enable(true);
    runtime::Span span = update_span(task.round);
    TracedResult<typename Messages::Result> result;
    result.result = half_->update(task.task);
    tables_->check();
    span.end_ns = runtime::now_ns();
    trace.add(std::move(span));
    result.spans = trace.take();
    return runtime::encode(result);
  }

  std::unique_ptr<Tables> tables_;  // outlive the half that uses them
  std::unique_ptr<WorkerHalf<Messages>> half_;
  runtime::Workplace* workplace_ = nullptr;
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
