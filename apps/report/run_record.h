// What a run came to: all that its report and its run.json say. Made from a run, written to
// run.json, read back from there, and reported from, by whichever process has it.
//
// Plain values; no threads.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/report/asked_record.h"
#include "apps/report/counted_apart.h"
#include "apps/report/plan_record.h"
#include "apps/report/traced_step.h"
#include "runtime/resident_memory.h"

namespace kerf::apps {

struct RunRecord {
  struct Evaluation {
    int64_t epoch = 0;  // from 1, as people count; 0: before any
    int64_t rows = 0;
    int64_t correct = 0;
    std::optional<double> loss = 0.0;  // empty: not finite
    int64_t labels_per_row = 1;
    // Answers among the five largest scores; empty where there are no more classes, or where they
    // are divided.
    std::optional<int64_t> in_top5 = std::nullopt;
    bool kept = true;        // its weights are those that the run left
    bool of_classes = true;  // answers are right or wrong; else near to numbers, or far
    // Of a row's labels: 0 of one, 1 of a text's, 2 of an image's. Empty in older records.
    std::optional<int64_t> label_axes = std::nullopt;
    int64_t labels() const { return rows * labels_per_row; }
    double share(int64_t answers) const {
      return rows == 0 ? 0 : static_cast<double>(answers) / static_cast<double>(labels());
    }
    std::optional<double> accuracy() const {
      return of_classes ? std::optional(share(correct)) : std::nullopt;
    }
    std::optional<double> top5() const {
      return in_top5 ? std::optional(share(*in_top5)) : std::nullopt;
    }
    // Of models that answer token by token.
    bool of_tokens() const { return label_axes ? *label_axes == 1 : labels_per_row > 1; }
    std::optional<double> perplexity() const {
      return of_tokens() && loss ? std::optional(std::exp(*loss)) : std::nullopt;
    }
  };
  struct Worker {
    int worker = 0;
    int pid = 0;
    std::string device;
    double compute_seconds = 0;
    double wait_seconds = 0;
    int64_t messages = 0;  // sent
    int64_t bytes_in = 0;
    int64_t bytes_out = 0;
    int64_t local_messages = 0;  // to itself, between its parts: no transport carries them
    int64_t local_bytes = 0;
    int64_t peak_bytes = 0;            // of tensors, as measured
    int64_t kernel_bytes = 0;          // beside it: what kernels of GPUs hold
    int64_t proved_bytes = -1;         // likewise, as proved before the run
    int64_t table_bytes = 0;           // beside that: of weights that replicas share
    int64_t predicted_peak_bytes = 0;  // an upper bound of both
    // Of the process's physical memory, more than when it began, but for rows of data; and those.
    // -1: unknown, as where workers share a process.
    int64_t resident_bytes = -1;
    int64_t data_bytes = 0;
    double predicted_step_seconds = 0;
    // Of messages to and from other workers: those sent again, and those that broke the protocol or
    // came twice; and spans that the trace had no room for.
    int64_t resent = 0;
    int64_t dropped = 0;
    int64_t spans_lost = 0;
  };
  struct Route {
    std::string value;
    bool gradient = false;
    int from = 0;  // worker
    int to = 0;
    partitioner::Traffic predicted;
    partitioner::Traffic counted;
    bool equal() const { return predicted == counted; }
  };
  struct Skipped {
    int64_t step = 0;   // from 0
    std::string cause;  // what was not finite
  };
  // Several plans that trained at once; routes are of one, and count what all sent.
  struct Replicas {
    int count = 1;
    std::string consistency;  // as --consistency has it
    int server_groups = 1;
    int64_t push_every = 1;  // steps
    int64_t fetch_every = 1;
    int64_t staleness = 0;  // clocks that fetched weights lacked at most
    int64_t left_out = 0;   // steps of one that were not finite, and pushed nothing
  };
  // How a training by L-BFGS ended; iterations are its steps.
  struct Lbfgs {
    bool converged = false;
    std::string stopped;  // why
    int64_t iterations = 0;
    int64_t evaluations = 0;        // of all rows
    std::vector<int64_t> portions;  // of rows, that each replica did
  };
  // Of a training that kept some, or went on from one.
  struct Checkpoints {
    int64_t resumed_steps = 0;  // before the part of the run that seconds and messages are of
    int64_t taken = 0;
    int64_t failed = 0;     // could not be written
    double seconds = 0;     // that all of them took
    int64_t in_memory = 0;  // by --keep-workers, beside those
    double in_memory_seconds = 0;
    int64_t bytes = 0;  // of the files of those that were taken, without their manifests
    int64_t in_memory_bytes = 0;
  };
  // Of a training: what is kept of all workers for a restart, in memory of the scheduler's host:
  // one of two files of each, headers left out; and the whole files of the last time, if there was
  // one. Then how often that was, and what all of it came to; in no other figure.
  struct Kept {
    int64_t predicted_bytes = 0;
    int64_t counted_bytes = 0;
    std::string forbidden;  // why nothing is; else empty
    int64_t commits = 0;
    int64_t committed_bytes = 0;
    double commit_seconds = 0;  // since the first worker stood still for it
  };
  // A worker that took so many times as long for its steps as at first, beside the others.
  struct Slow {
    int worker = 0;
    int64_t from_step = 0;           // behind which it was seen; from 0
    std::optional<int64_t> to_step;  // behind which it was over; empty: it lasted
    double times = 1;
  };
  // The run went on by another plan, since workers or operators had other speeds than planned.
  struct Rebalance {
    static constexpr double kSlow = 1.25;  // slowness; below, operators took other times

    int64_t step = 0;     // planned behind so many
    int worker = 0;       // the slowest, beside its planned speed
    double slowness = 1;  // times as long as planned, beside the worker of which that is least
    double before_seconds = 0;  // a step, as predicted by measured speeds: by the plan before
    double after_seconds = 0;   // and by the one behind it
    int64_t bytes = 0;          // of weights that moved
    double seconds = 0;         // until the next step was there; 0: not known
  };
  // Messages between scheduler and workers.
  struct Control {
    int64_t sent = 0;
    int64_t received = 0;
    int64_t resent = 0;
    int64_t dropped = 0;
    int64_t fenced = 0;   // of workers whose epoch was over
    int64_t refused = 0;  // connections of strangers
  };

  std::string kind = "train";  // or "evaluate"
  std::string data;            // the data set's name
  PlanRecord plan;
  AskedRecord asked;  // of the plan
  // Of each step; empty where it is not finite.
  std::vector<std::optional<double>> losses;
  std::vector<std::optional<double>> gradient_norms;
  std::vector<double> learning_rates;
  std::string optimizer;         // and all that its updates go by, for people
  std::vector<Skipped> skipped;  // steps that were not finite, and updated nothing from there on
  std::vector<Evaluation> evaluations;
  // Of a training: whether its sums are in the order of every other schedule's; empty in older
  // records. Cuts within operators round in ways of their own.
  std::optional<bool> same_bits = std::nullopt;
  // Of a training that updates weights within its steps: by stage, how many updates late a gradient
  // comes at most. Else empty.
  std::vector<int> staleness;
  std::optional<Replicas> replicas = std::nullopt;  // where there is more than one
  std::optional<Lbfgs> lbfgs = std::nullopt;
  std::optional<Checkpoints> checkpoints = std::nullopt;
  std::optional<Kept> kept = std::nullopt;  // unless --no-restart
  // Of a schedule that goes on for ever: why its pipeline drains at each step's end nevertheless.
  std::optional<std::string> drains = std::nullopt;
  // Of one whose does not: behind how many steps it drains at the latest.
  std::optional<int64_t> drain_period = std::nullopt;
  double seconds = 0;
  // Of training, start-up and tests left out; a figure between steps takes two of them.
  std::optional<double> rows_per_second;
  int64_t labels_per_row = 1;
  std::optional<int64_t> label_axes = std::nullopt;  // as of an evaluation
  std::optional<double> median_step_seconds;
  std::vector<Worker> workers;
  // What a worker's process may hold beside what was proved for it.
  int64_t process_allowance_bytes = runtime::kProcessAllowance;
  Control control;
  bool data_encrypted = false;  // what crossed between workers over tcp
  int64_t restarts = 0;         // of all workers, since one was lost
  int64_t repeated_tasks = 0;   // behind those; in no other figure, nor what was sent for them:
  int64_t repeated_messages = 0;
  int64_t repeated_bytes = 0;
  std::vector<RecoveryRecord> recoveries = {};
  std::vector<Rebalance> rebalances = {};
  std::vector<Slow> slow = {};  // of a training without --rebalance, which lists what came of it
  std::vector<Route> routes;
  std::optional<TracedStep> traced = std::nullopt;  // of training
  std::string untraced = {};                        // where there is none: why

  std::optional<double> accuracy() const;  // of the weights that the run left
  // Of those: the last of evaluations, of which there is one, unless training stopped early.
  const Evaluation& kept_evaluation() const;
  // Of models that answer token by token.
  bool of_tokens() const { return label_axes ? *label_axes == 1 : labels_per_row > 1; }
  std::optional<double> tokens_per_second() const {
    return of_tokens() && rows_per_second
               ? std::optional(*rows_per_second * static_cast<double>(labels_per_row))
               : std::nullopt;
  }
  // Over the whole run.
  partitioner::Traffic predicted() const;
  partitioner::Traffic counted() const;
  bool equal() const;  // route by route
  // Whether it is known, and more than what was proved with the allowance.
  bool holds_too_much(const Worker& worker) const {
    return worker.resident_bytes >
           worker.proved_bytes + worker.table_bytes + process_allowance_bytes;
  }
};

// Without paths: a run's folder may be elsewhere by now.
std::string run_text(const RunRecord& record, bool colour);
// Of it, the line on the last evaluation; empty where there was none.
std::string accuracy_text(const RunRecord& record, bool colour);
// For people, a line without its end.
std::string slow_text(const RunRecord::Slow& slow);
CountedApart apart_of(const RunRecord& record);
// Throws Error{kInternal} that names the first route where predicted and counted differ.
void check_traffic(const RunRecord& record);

std::string write_run_record(const RunRecord& record);
// Strict: throws Error{kUsage} that names `origin` and the member at fault.
RunRecord read_run_record(const std::string& text, const std::string& origin);

template <class Fields>
void fields(Fields& f, RunRecord::Evaluation& evaluation) {
  f("epoch", evaluation.epoch);
  f("rows", evaluation.rows);
  f("correct", evaluation.correct);
  f("loss", evaluation.loss);
  f.newer("of_classes", evaluation.of_classes);
  f.newer("labels_per_row", evaluation.labels_per_row);
  f.derived("accuracy", evaluation.accuracy());
  f.newer("label_axes", evaluation.label_axes);
  f.newer("in_top5", evaluation.in_top5);
  f.derived("top5", evaluation.top5());
  f.derived("perplexity", evaluation.perplexity());
  f.newer("kept", evaluation.kept);
}

template <class Fields>
void fields(Fields& f, RunRecord::Worker& worker) {
  f("worker", worker.worker);
  f("pid", worker.pid);
  f("device", worker.device);
  f("compute_seconds", worker.compute_seconds);
  f("wait_seconds", worker.wait_seconds);
  f("messages", worker.messages);
  f("bytes_in", worker.bytes_in);
  f("bytes_out", worker.bytes_out);
  f.newer("local_messages", worker.local_messages);
  f.newer("local_bytes", worker.local_bytes);
  f("peak_bytes", worker.peak_bytes);
  f.newer("kernel_bytes", worker.kernel_bytes);
  f.newer("proved_bytes", worker.proved_bytes);
  f.newer("table_bytes", worker.table_bytes);
  f("predicted_peak_bytes", worker.predicted_peak_bytes);
  f.newer("resident_bytes", worker.resident_bytes);
  f.newer("data_bytes", worker.data_bytes);
  f("predicted_step_seconds", worker.predicted_step_seconds);
  f.newer("resent", worker.resent);
  f.newer("dropped", worker.dropped);
  f.newer("spans_lost", worker.spans_lost);
}

template <class Fields>
void fields(Fields& f, RunRecord::Route& route) {
  f("value", route.value);
  f("gradient", route.gradient);
  f("from", route.from);
  f("to", route.to);
  f("predicted_messages", route.predicted.messages);
  f("messages", route.counted.messages);
  f("predicted_bytes", route.predicted.bytes);
  f("bytes", route.counted.bytes);
}

template <class Fields>
void fields(Fields& f, RunRecord::Skipped& skipped) {
  f("step", skipped.step);
  f("cause", skipped.cause);
}

template <class Fields>
void fields(Fields& f, RunRecord::Replicas& replicas) {
  f("count", replicas.count);
  f("consistency", replicas.consistency);
  f("server_groups", replicas.server_groups);
  f("push_every", replicas.push_every);
  f("fetch_every", replicas.fetch_every);
  f("staleness", replicas.staleness);
  f("left_out", replicas.left_out);
}

template <class Fields>
void fields(Fields& f, RunRecord::Lbfgs& lbfgs) {
  f("converged", lbfgs.converged);
  f("stopped", lbfgs.stopped);
  f("iterations", lbfgs.iterations);
  f("evaluations", lbfgs.evaluations);
  f("portions", lbfgs.portions);
}

template <class Fields>
void fields(Fields& f, RunRecord::Kept& kept) {
  f("predicted_bytes", kept.predicted_bytes);
  f("counted_bytes", kept.counted_bytes);
  f("forbidden", kept.forbidden);
  f.newer("commits", kept.commits);
  f.newer("committed_bytes", kept.committed_bytes);
  f.newer("commit_seconds", kept.commit_seconds);
}

template <class Fields>
void fields(Fields& f, RunRecord::Slow& slow) {
  f("worker", slow.worker);
  f("from_step", slow.from_step);
  f("to_step", slow.to_step);
  f("times", slow.times);
}

template <class Fields>
void fields(Fields& f, RunRecord::Checkpoints& checkpoints) {
  f("resumed_steps", checkpoints.resumed_steps);
  f("taken", checkpoints.taken);
  f("failed", checkpoints.failed);
  f("seconds", checkpoints.seconds);
  f.newer("in_memory", checkpoints.in_memory);
  f.newer("in_memory_seconds", checkpoints.in_memory_seconds);
  f.newer("bytes", checkpoints.bytes);
  f.newer("in_memory_bytes", checkpoints.in_memory_bytes);
}

template <class Fields>
void fields(Fields& f, RunRecord::Rebalance& rebalance) {
  f("step", rebalance.step);
  f("worker", rebalance.worker);
  f("slowness", rebalance.slowness);
  f("before_seconds", rebalance.before_seconds);
  f("after_seconds", rebalance.after_seconds);
  f("bytes", rebalance.bytes);
  f("seconds", rebalance.seconds);
}

template <class Fields>
void fields(Fields& f, RunRecord::Control& control) {
  f("sent", control.sent);
  f("received", control.received);
  f("resent", control.resent);
  f("dropped", control.dropped);
  f.newer("refused", control.refused);
  f.newer("fenced", control.fenced);
}

template <class Fields>
void fields(Fields& f, RunRecord& run) {
  f.newer("kind", run.kind);
  f.newer("data", run.data);
  f("plan", run.plan);
  f.spoken("asked", run.asked, asked_json, read_asked);
  f.derived("model", run.plan.model);
  f("losses", run.losses);
  f.derived("steps", static_cast<int64_t>(run.losses.size()));
  f.newer("gradient_norms", run.gradient_norms);
  f.newer("learning_rates", run.learning_rates);
  f.newer("optimizer", run.optimizer);
  f.newer("skipped", run.skipped);
  f("evaluations", run.evaluations);
  f.derived("accuracy", run.accuracy());
  f("seconds", run.seconds);
  f("images_per_second", run.rows_per_second);
  f.newer("labels_per_row", run.labels_per_row);
  f.newer("label_axes", run.label_axes);
  f.derived("tokens_per_second", run.tokens_per_second());
  f("median_step_seconds", run.median_step_seconds);
  f("workers", run.workers);
  f.newer("process_allowance_bytes", run.process_allowance_bytes);
  f("routes", run.routes);
  f.derived("predicted", run.predicted());
  f.derived("counted", run.counted());
  f.derived("equal", run.equal());
  f("control", run.control);
  f.newer("data_encrypted", run.data_encrypted);
  f.newer("restarts", run.restarts);
  f.newer("repeated_tasks", run.repeated_tasks);
  f.newer("repeated_messages", run.repeated_messages);
  f.newer("repeated_bytes", run.repeated_bytes);
  f.newer("recoveries", run.recoveries);
  f.derived("unanswered_tasks", unanswered_tasks(run.recoveries));
  f.newer("rebalances", run.rebalances);
  f.newer("slow", run.slow);
  f.newer("same_bits", run.same_bits);
  f.newer("staleness", run.staleness);
  f.newer("replicas", run.replicas);
  f.newer("lbfgs", run.lbfgs);
  f.newer("checkpoints", run.checkpoints);
  f.newer("kept", run.kept);
  f.newer("drains", run.drains);
  f.newer("drain_period", run.drain_period);
  f.newer("traced", run.traced);
  f.newer("untraced", run.untraced);
}

}  // namespace kerf::apps
