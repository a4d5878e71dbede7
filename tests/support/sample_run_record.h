// A run's record with something of everything in it.
#pragma once

#include "apps/report/run_record.h"

namespace kerf::tests {

inline apps::RunRecord sample_run_record() {
  apps::RunRecord record;
  record.data = "synthetic:64x8x2";
  record.plan.model = "mlp";
  record.plan.cut = "layer";
  record.plan.schedule = "1f1b";
  record.plan.batch = 32;
  record.plan.micro_batches = 4;
  record.plan.workers = {{.worker = 0, .forward_flops = 1e6, .seconds = 0.1 + 0.2}};
  record.plan.stages = {{{"fc1", "relu1"}, {0}}, {{"fc2"}, {1}}};
  record.plan.routes = {
      {"relu1.output", false, 0, 1, "slice -> bridge -> concat", false, false, false, 4, 400},
      {"relu1.output", true, 1, 0, "bridge -> sum", true, false, false, 4, 800}};
  record.plan.bottleneck = 3;
  record.plan.bound = 2;
  record.losses = {1.0 / 3, 0.25};
  record.evaluations = {{1, 8, 6, 0.5}};
  record.seconds = 12;
  record.rows_per_second = 345;
  record.workers = {{.worker = 0,
                     .pid = 77,
                     .device = "cpu",
                     .messages = 4,
                     .peak_bytes = 2048,
                     .proved_bytes = 4096,
                     .predicted_peak_bytes = 5000,
                     .resident_bytes = 6000,
                     .data_bytes = 700,
                     .resent = 3,
                     .dropped = 2,
                     .spans_lost = 7}};
  record.control = {.sent = 9, .received = 8, .resent = 1, .dropped = 0};
  record.data_encrypted = true;
  record.restarts = 2;
  record.repeated_tasks = 11;
  record.repeated_messages = 22;
  record.repeated_bytes = 2560;
  record.recoveries = {{.worker = 1,
                        .why = "worker 1 was lost: signal 9",
                        .round = 40,
                        .reached_round = 43,
                        .step = 38,
                        .discarded_tasks = 8,
                        .unanswered_tasks = 4,
                        .seconds = 0.5},
                       {.why = "a worker was lost",
                        .round = 40,
                        .reached_round = 41,
                        .discarded_tasks = 3,
                        .unanswered_tasks = 2,
                        .seconds = 0.25}};
  record.drain_period = 25;
  record.kept = {.predicted_bytes = 4096,
                 .counted_bytes = 4500,
                 .forbidden = {},
                 .commits = 3,
                 .committed_bytes = 13312,
                 .commit_seconds = 0.125};
  record.slow = {{.worker = 1, .from_step = 20, .to_step = 40, .times = 1.9},
                 {.worker = 0, .from_step = 50, .to_step = {}, .times = 3}};
  record.rebalances = {{.step = 40,
                        .worker = 1,
                        .slowness = 2.5,
                        .before_seconds = 0.25,
                        .after_seconds = 0.125,
                        .bytes = 4096,
                        .seconds = 1.5}};
  record.routes = {{"relu1.output", false, 0, 1, {4, 400}, {4, 400}}};
  return record;
}

}  // namespace kerf::tests
