#include "apps/report/run_record.h"

#include <algorithm>

#include "apps/report/encrypted_text.h"
#include "apps/report/json_fields.h"
#include "apps/report/table.h"
#include "apps/report/terminal.h"
#include "runtime/error.h"

namespace kerf::apps {

using partitioner::Traffic;

namespace {

Traffic sum(const std::vector<RunRecord::Route>& routes, Traffic RunRecord::Route::*which) {
  Traffic sum;
  for (const RunRecord::Route& route : routes) {
    sum.messages += (route.*which).messages;
    sum.bytes += (route.*which).bytes;
  }
  return sum;
}

std::string steps_text(const RunRecord& record) {
  if (record.losses.empty()) return {};
  std::string text =
      format("{} in {}", plural(static_cast<long long>(record.losses.size()), "step"),
             human_seconds(record.seconds));
  if (record.rows_per_second)
    text += format(", {} rows/s", human_count(static_cast<long long>(*record.rows_per_second)));
  if (const auto tokens = record.tokens_per_second())
    text += format(", {} tokens/s", human_count(static_cast<long long>(*tokens)));
  const std::optional<double> last = record.losses.back();
  text += ", loss of the last step " + (last ? format("{:.4f}", *last) : "not finite") + "\n";
  if (record.skipped.empty()) return text;
  const RunRecord::Skipped& first = record.skipped.front();
  return text + format("{} skipped: {} of step {} was not finite{}\n",
                       plural(static_cast<long long>(record.skipped.size()), "step"), first.cause,
                       first.step, record.skipped.size() > 1 ? " first" : "");
}

std::string workers_text(const RunRecord& record, bool colour) {
  Table table({"worker", "pid", "compute", "wait", "messages", "out", "in", "peak memory", "proved",
               "resident"});
  for (const RunRecord::Worker& worker : record.workers)
    table.add({format("{}", worker.worker), format("{}", worker.pid),
               human_seconds(worker.compute_seconds), human_seconds(worker.wait_seconds),
               human_count(worker.messages), bytes_text(worker.bytes_out),
               bytes_text(worker.bytes_in), bytes_text(worker.peak_bytes),
               bytes_text(worker.proved_bytes),
               worker.resident_bytes < 0 ? "-" : bytes_text(worker.resident_bytes)});
  return table.text(colour);
}

std::string traffic_text(const RunRecord& record, bool colour) {
  const auto one = [](const char* what, const Traffic& traffic) {
    return format("{:<9}  {}, {}", what, plural(traffic.messages, "message"),
                  plural(traffic.bytes, "byte"));
  };
  return format("{}\n{}: {}\n", one("predicted", record.predicted()),
                one("counted", record.counted()),
                record.equal() ? painted("equal", Ink::kGreen, colour)
                               : painted("DIFFERENT", Ink::kRed, colour));
}

std::string lbfgs_text(const RunRecord& record) {
  if (!record.lbfgs) return {};
  const RunRecord::Lbfgs& of = *record.lbfgs;
  std::string text =
      format("L-BFGS {} behind {} and {} of all rows: {}\n", of.converged ? "converged" : "stopped",
             plural(of.iterations, "iteration"), plural(of.evaluations, "evaluation"), of.stopped);
  if (of.portions.size() > 1)
    text += format("portions of rows, by replica: {}\n", fmt::join(of.portions, " "));
  return text;
}

std::string replicas_text(const RunRecord& record) {
  if (!record.replicas) return {};
  const RunRecord::Replicas& of = *record.replicas;
  std::string text = format("{} replicas, {}", of.count, of.consistency);
  if (of.server_groups > 1) text += format(", {} server groups", of.server_groups);
  if (of.consistency == "async" && (of.push_every > 1 || of.fetch_every > 1))
    text += format(", pushed every {} and fetched every {}", plural(of.push_every, "step"),
                   plural(of.fetch_every, "step"));
  if (of.staleness > 0)
    text +=
        format(": weights lacked the last {} of a replica at most", plural(of.staleness, "step"));
  text += "\n";
  if (of.left_out > 0)
    text += format("{} of single replicas were not finite, and pushed nothing\n",
                   plural(of.left_out, "step"));
  return text;
}

std::string checkpoints_text(const RunRecord& record) {
  if (!record.checkpoints) return {};
  const RunRecord::Checkpoints& of = *record.checkpoints;
  if (of.resumed_steps == 0) return {};
  return format("went on behind {}: times, messages and restarts are of what followed\n",
                plural(of.resumed_steps, "step"));
}

std::string was_kept_text(const RunRecord& record) {
  if (!record.kept) return {};
  const RunRecord::Kept& of = *record.kept;
  if (!of.forbidden.empty())
    return format("nothing was kept in memory for a restart{}: {}\n",
                  record.checkpoints && record.checkpoints->in_memory > 0
                      ? " but the checkpoints of --keep-workers"
                      : "",
                  of.forbidden);
  return format(
      "memory of the scheduler's host for copies that a restart needs, on top of the peaks: two of "
      "{}\n",
      bytes_text(of.predicted_bytes));
}

std::string rebalances_text(const RunRecord& record) {
  std::string text;
  for (const RunRecord::Rebalance& each : record.rebalances) {
    const std::string why =
        each.slowness < RunRecord::Rebalance::kSlow
            ? "operators took other times than was planned"
            : format(
                  "worker {} took {:.2f} times as long as was planned, beside the one of which "
                  "that was least",
                  each.worker, each.slowness);
    text += format(
        "planned anew behind {}: {}; a step from {} to {}, {} of weights moved, in "
        "{:.1f} s\n",
        plural(each.step, "step"), why, human_seconds(each.before_seconds),
        human_seconds(each.after_seconds), bytes_text(each.bytes), each.seconds);
  }
  return text;
}

// What went wrong without harm; nothing where nothing did.
std::string losses_text(const RunRecord& record) {
  int64_t resent = 0, dropped = 0, spans = 0;
  for (const RunRecord::Worker& worker : record.workers) {
    resent += worker.resent;
    dropped += worker.dropped;
    spans += worker.spans_lost;
  }
  std::string text = replicas_text(record) + checkpoints_text(record) + was_kept_text(record) +
                     rebalances_text(record);
  for (const RunRecord::Slow& each : record.slow) text += slow_text(each) + "\n";
  if (!record.staleness.empty())
    text += format(
        "weights were updated within each step: a gradient is late by, by stage: {} updates at "
        "most\n",
        fmt::join(record.staleness, " "));
  else if (!record.same_bits.value_or(true) && !record.replicas)
    text +=
        "gradients were added up in an order of this schedule's own: other last bits than those of "
        "other schedules\n";
  if (record.drains)
    text += format("the pipeline drained at the end of each step: {}\n", *record.drains);
  if (record.drain_period)
    text += format("the pipeline drained behind every {}\n",
                   *record.drain_period == 1 ? "step" : plural(*record.drain_period, "step"));
  text += encrypted_text(record.data_encrypted);
  const auto line = [&](int64_t count, const char* what, const char* noun, const char* why) {
    if (count > 0) text += format("{:<9}  {} {}\n", what, plural(count, noun), why);
  };
  line(record.control.resent, "resent", "control message", "that had not arrived in time");
  line(record.control.dropped, "dropped", "control message",
       "that nobody of this run sent, or twice");
  line(record.control.refused, "refused", "connection",
       "of strangers, who have no key of this run");
  line(resent, "resent", "message", "between workers that had not arrived in time");
  line(dropped, "dropped", "message", "between workers that nobody of this run sent, or twice");
  line(spans, "lost", "span", "of the trace, which had no room for more");
  for (const RunRecord::Worker& worker : record.workers)
    if (record.holds_too_much(worker))
      text += format(
          "worker {} has {} in memory: more than the {} that were proved{} and {} for its "
          "process\n",
          worker.worker, bytes_text(worker.resident_bytes), bytes_text(worker.proved_bytes),
          worker.table_bytes > 0 ? format(", {} for tables", bytes_text(worker.table_bytes)) : "",
          bytes_text(record.process_allowance_bytes));
  return text;
}

}  // namespace

std::optional<double> RunRecord::accuracy() const {
  if (evaluations.empty()) return std::nullopt;
  return kept_evaluation().accuracy();
}

const RunRecord::Evaluation& RunRecord::kept_evaluation() const {
  const auto found = std::find_if(evaluations.rbegin(), evaluations.rend(),
                                  [](const Evaluation& each) { return each.kept; });
  return found == evaluations.rend() ? evaluations.back() : *found;
}

Traffic RunRecord::predicted() const { return sum(routes, &Route::predicted); }
Traffic RunRecord::counted() const { return sum(routes, &Route::counted); }
bool RunRecord::equal() const {
  return std::all_of(routes.begin(), routes.end(),
                     [](const Route& route) { return route.equal(); });
}

std::string slow_text(const RunRecord::Slow& slow) {
  return format("worker {} took {:.1f} times as long as it did, beside the others, {}", slow.worker,
                slow.times,
                slow.to_step ? format("from step {} to {}", slow.from_step, *slow.to_step)
                             : format("from step {} on", slow.from_step));
}

CountedApart apart_of(const RunRecord& record) {
  CountedApart apart{.recoveries = record.recoveries,
                     .restarts = record.restarts,
                     .repeated_tasks = record.repeated_tasks,
                     .fenced_messages = record.control.fenced};
  if (record.repeated_bytes > 0 || !record.recoveries.empty())
    apart.repeated_bytes = record.repeated_bytes;
  if (const auto& kept = record.kept)
    apart.commits = {kept->commits, kept->committed_bytes, kept->commit_seconds};
  if (const auto& saved = record.checkpoints) {
    apart.checkpoints = {saved->taken, saved->bytes, saved->seconds};
    apart.in_memory = {saved->in_memory, saved->in_memory_bytes, saved->in_memory_seconds};
    apart.failed_checkpoints = saved->failed;
  }
  return apart;
}

void check_traffic(const RunRecord& record) {
  for (const RunRecord::Route& route : record.routes)
    if (!route.equal())
      throw Error(
          ErrorCode::kInternal,
          format("PREDICTED AND COUNTED DIFFER: {} messages of {} bytes were predicted, {} of {} "
                 "counted; the plan's costs are wrong",
                 route.predicted.messages, route.predicted.bytes, route.counted.messages,
                 route.counted.bytes),
          format("{} of {} from worker {} to {}", route.gradient ? "gradient" : "values",
                 route.value, route.from, route.to));
}

std::string accuracy_text(const RunRecord& record, bool colour) {
  if (record.evaluations.empty()) return {};
  const RunRecord::Evaluation& kept = record.kept_evaluation();
  const char* const noun = kept.of_tokens() ? "token" : kept.labels_per_row == 1 ? "row" : "pixel";
  std::string text;
  if (const auto accuracy = kept.accuracy())
    text = format("test accuracy {} ({} of {}), test loss {}",
                  painted(format("{:.2f} %", *accuracy * 100), Ink::kBold, colour),
                  human_count(kept.correct), plural(kept.labels(), noun),
                  kept.loss ? format("{:.4f}", *kept.loss) : "not finite");
  else
    text =
        format("test loss {} of {}",
               painted(kept.loss ? format("{:.6g}", *kept.loss) : "not finite", Ink::kBold, colour),
               plural(kept.rows, "row"));
  if (const auto perplexity = kept.perplexity()) text += format(", perplexity {:.2f}", *perplexity);
  if (const auto top5 = kept.top5()) text += format(", top-5 {:.2f} %", *top5 * 100);
  if (&kept != &record.evaluations.back())
    text += format("\nthese weights are of epoch {}: its test loss is the lowest of {} epochs",
                   kept.epoch, record.evaluations.back().epoch);
  return text + "\n";
}

std::string run_text(const RunRecord& record, bool colour) {
  std::string text = asked_text(record.asked) + steps_text(record) + lbfgs_text(record) +
                     accuracy_text(record, colour) + "\n" + workers_text(record, colour) + "\n" +
                     traffic_text(record, colour);
  return text + losses_text(record) + apart_text(apart_of(record), colour);
}

std::string write_run_record(const RunRecord& record) {
  return json_text(to_json(record), 2) + "\n";
}

RunRecord read_run_record(const std::string& text, const std::string& origin) {
  RunRecord record;
  from_json(parse_json(text, origin), origin, record);
  if (record.traced) check_traced(*record.traced, record.workers.size(), origin + ": traced");
  // The first version knew the prediction only, which was what it had proved.
  for (RunRecord::Worker& worker : record.workers)
    if (worker.proved_bytes < 0) worker.proved_bytes = worker.predicted_peak_bytes;
  return record;
}

}  // namespace kerf::apps
