// A run's record: what is written reads back identically, what is not a record is refused at its
// place, and both processes report the same from it.
#include "apps/report/run_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "apps/report/json_fields.h"
#include "runtime/error.h"
#include "tests/support/sample_run_record.h"

namespace kerf::apps {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using tests::sample_run_record;

std::string refusal(const std::function<void(Json&)>& change) {
  Json json = parse_json(write_run_record(sample_run_record()), "run.json");
  change(json);
  try {
    read_run_record(json_text(json), "run.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return {};
}

TEST(RunRecord, ReadsBackIdentically) {
  const std::string text = write_run_record(sample_run_record());
  const RunRecord back = read_run_record(text, "run.json");
  EXPECT_EQ(write_run_record(back), text);
  EXPECT_EQ(run_text(back, true), run_text(sample_run_record(), true));
  EXPECT_EQ(plan_text(back.plan, false), plan_text(sample_run_record().plan, false));
  EXPECT_EQ(back.losses, sample_run_record().losses);
  EXPECT_EQ(back.median_step_seconds, std::nullopt);
}

TEST(RunRecord, HasWhatFollowsForWhoReadsTheText) {
  const Json json = parse_json(write_run_record(sample_run_record()), "run.json");
  EXPECT_EQ(json["steps"], 2);
  EXPECT_EQ(json["model"], "mlp");
  EXPECT_EQ(json["accuracy"], 0.75);
  EXPECT_EQ(json["counted"], parse_json(R"({"messages": 4, "bytes": 400})", ""));
  EXPECT_EQ(json["equal"], true);
  EXPECT_EQ(json["workers"][0]["proved_bytes"], 4096);
  EXPECT_EQ(json["workers"][0]["predicted_peak_bytes"], 5000);
  EXPECT_EQ(json["workers"][0]["resident_bytes"], 6000);
  EXPECT_EQ(json["workers"][0]["data_bytes"], 700);
  EXPECT_EQ(json["process_allowance_bytes"], 24 << 20);
  EXPECT_EQ(json["workers"][0]["resent"], 3);
  EXPECT_EQ(json["workers"][0]["dropped"], 2);
  EXPECT_EQ(json["workers"][0]["spans_lost"], 7);
  EXPECT_EQ(json["plan"]["connectors"],
            parse_json(R"({"bridge": 2, "slice": 1, "concat": 1, "sum": 1})", ""));
  EXPECT_EQ(json["plan"]["gap"], 0.5);
}

TEST(RunRecord, TellsWhichWeightsStayedAndWhatTheyAreWorth) {
  RunRecord record = sample_run_record();
  record.labels_per_row = 16;
  record.evaluations = {{1, 8, 96, 0.5, 16, 112, true}, {2, 8, 80, 0.75, 16, 100, false}};
  record.learning_rates = {0.1, 0.05};
  record.optimizer = "adamw";
  const std::string written = write_run_record(record);
  const Json json = parse_json(written, "run.json");
  EXPECT_EQ(json["accuracy"], 0.75);
  EXPECT_EQ(json["tokens_per_second"], 345 * 16);
  EXPECT_EQ(json["evaluations"][0]["top5"], 112.0 / 128);
  EXPECT_EQ(json["evaluations"][1]["perplexity"], std::exp(0.75));
  EXPECT_EQ(write_run_record(read_run_record(written, "run.json")), written);
  const std::string text = run_text(record, false);
  EXPECT_THAT(text, HasSubstr("345 rows/s, 5,520 tokens/s"));
  EXPECT_THAT(text, HasSubstr("test accuracy 75.00 % (96 of 128 tokens), test loss 0.5000, "
                              "perplexity 1.65, top-5 87.50 %"));
  EXPECT_THAT(text, HasSubstr("these weights are of epoch 1: its test loss is the lowest of 2"));
  EXPECT_THAT(run_text(sample_run_record(), false), Not(HasSubstr("these weights")));
  EXPECT_TRUE(
      parse_json(write_run_record(sample_run_record()), "")["evaluations"][0]["top5"].is_null());
}

TEST(RunRecord, CountsWhatARowHasLabelsOf) {
  const auto told = [](int64_t labels, int64_t axes) {
    RunRecord record = sample_run_record();
    record.labels_per_row = labels;
    record.label_axes = axes;
    record.evaluations = {{1, 8, 6, 0.5, labels, std::nullopt, true, true, axes}};
    const std::string written = write_run_record(record);
    EXPECT_EQ(write_run_record(read_run_record(written, "run.json")), written);
    return run_text(record, false);
  };
  EXPECT_THAT(told(1, 0), AllOf(HasSubstr("of 8 rows"), Not(HasSubstr("perplexity"))));
  EXPECT_THAT(told(1, 1), AllOf(HasSubstr("of 8 tokens"), HasSubstr("perplexity 1.65")));
  EXPECT_THAT(told(16, 2), AllOf(HasSubstr("of 128 pixels"), Not(HasSubstr("perplexity")),
                                 Not(HasSubstr("tokens/s"))));
}

TEST(RunRecord, ATestLossThatIsNotFiniteIsTold) {
  RunRecord record = sample_run_record();
  record.evaluations = {{1, 8, 6, std::nullopt}};
  const std::string written = write_run_record(record);
  EXPECT_TRUE(parse_json(written, "")["evaluations"][0]["loss"].is_null());
  EXPECT_EQ(write_run_record(read_run_record(written, "run.json")), written);
  EXPECT_THAT(run_text(record, false), HasSubstr("test loss not finite"));
}

TEST(RunRecord, HasNoGapWithoutABound) {
  RunRecord record = sample_run_record();
  EXPECT_THAT(plan_text(record.plan, false), HasSubstr("50.0 % above a lower bound"));
  record.plan.bound = std::nullopt;
  const std::string text = write_run_record(record);
  const Json json = parse_json(text, "run.json");
  EXPECT_TRUE(json["plan"]["bound"].is_null());
  EXPECT_TRUE(json["plan"]["gap"].is_null());
  EXPECT_EQ(write_run_record(read_run_record(text, "run.json")), text);
  EXPECT_THAT(plan_text(record.plan, false), Not(HasSubstr("lower bound")));
}

TEST(RunRecord, LacksWhatAnEarlierVersionDidNotKnow) {
  EXPECT_EQ(refusal([](Json& j) {
              for (const char* key : {"kind", "data", "steps", "equal"}) j.erase(key);
              for (const char* key : {"proved_bytes", "resent", "dropped", "spans_lost"})
                j["workers"][0].erase(key);
              j["recoveries"][0].erase("step");
              j["plan"].erase("connectors");
            }),
            "");
}

TEST(RunRecord, NamesThePlaceOfAWrongValue) {
  EXPECT_THAT(refusal([](Json& j) { j.erase("losses"); }), HasSubstr("losses"));
  EXPECT_THAT(refusal([](Json& j) { j["losses"][1] = "low"; }),
              StartsWith("run.json: losses[1]: must be a number"));
  EXPECT_THAT(refusal([](Json& j) { j["workers"][0]["pid"] = 1.5; }),
              StartsWith("run.json: workers[0].pid: must be a whole number"));
  EXPECT_THAT(refusal([](Json& j) { j["workers"][0]["pid"] = int64_t{1} << 40; }),
              StartsWith("run.json: workers[0].pid"));
  EXPECT_THAT(refusal([](Json& j) { j["plan"]["stages"][1]["nodes"] = 3; }),
              StartsWith("run.json: plan.stages[1].nodes: must be an array"));
  EXPECT_THAT(refusal([](Json& j) { j["plan"]["routes"][0]["gradient"] = 1; }),
              StartsWith("run.json: plan.routes[0].gradient: must be true or false"));
  EXPECT_THAT(refusal([](Json& j) { j["control"] = Json::array(); }),
              StartsWith("run.json: control: must be an object"));
  EXPECT_THAT(refusal([](Json& j) { j["colour"] = "red"; }),
              StartsWith("run.json: \"colour\" is not a member"));
  EXPECT_THAT(refusal([](Json& j) { j["kind"] = nullptr; }), StartsWith("run.json: kind"));
}

TEST(RunRecord, VerifiesWhatFollows) {
  EXPECT_THAT(refusal([](Json& j) { j["steps"] = 7; }),
              HasSubstr("\"steps\" is 7, but the other members make it 2"));
  EXPECT_THAT(refusal([](Json& j) { j["routes"][0]["bytes"] = 1; }), HasSubstr("\"counted\""));
  EXPECT_THAT(refusal([](Json& j) { j["evaluations"][0]["accuracy"] = 1.0; }),
              StartsWith("run.json: evaluations[0]: \"accuracy\""));
  EXPECT_THAT(refusal([](Json& j) { j["plan"]["per_step"]["loss"]["bytes"] = 0; }),
              StartsWith("run.json: plan: \"per_step\""));
}

TEST(RunRecord, TellsOfTrafficThatDiffers) {
  RunRecord record = sample_run_record();
  EXPECT_NO_THROW(check_traffic(record));
  EXPECT_THAT(run_text(record, false), HasSubstr("equal"));
  record.routes[0].counted.bytes = 401;
  EXPECT_THAT(run_text(record, false), HasSubstr("DIFFERENT"));
  try {
    check_traffic(record);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    EXPECT_THAT(error.what(), StartsWith("values of relu1.output from worker 0 to 1"));
  }
}

TEST(RunRecord, KeepsStepsThatWereSkipped) {
  RunRecord record = sample_run_record();
  record.losses = {0.5, std::nullopt, 0.25, std::nullopt};
  record.gradient_norms = {1.5, std::nullopt, std::nullopt, std::nullopt};
  record.skipped = {{1, "the loss"}, {2, "the gradient of w"}, {3, "the loss"}};
  const std::string text = write_run_record(record);
  const RunRecord back = read_run_record(text, "run.json");
  EXPECT_EQ(back.losses, record.losses);
  EXPECT_EQ(back.gradient_norms, record.gradient_norms);
  EXPECT_EQ(write_run_record(back), text);
  const Json json = parse_json(text, "run.json");
  EXPECT_EQ(json["steps"], 4);
  EXPECT_TRUE(json["losses"][1].is_null());
  EXPECT_EQ(json["skipped"][1]["cause"], "the gradient of w");
  EXPECT_THAT(run_text(record, false), HasSubstr("loss of the last step not finite\n"));
  EXPECT_THAT(run_text(record, false),
              HasSubstr("3 steps skipped: the loss of step 1 was not finite first"));
}

TEST(RunRecord, SaysNothingOfWhatDidNotHappen) {
  RunRecord record = sample_run_record();
  record.losses.clear();
  record.evaluations.clear();
  EXPECT_THAT(run_text(record, false), StartsWith("\nworker"));
  EXPECT_EQ(accuracy_text(record, false), "");
  record.control = {};
  record.restarts = record.repeated_tasks = record.repeated_bytes = 0;
  record.recoveries.clear();
  record.rebalances.clear();
  record.slow.clear();
  record.kept.reset();
  record.drain_period.reset();
  record.data_encrypted = false;
  record.workers[0].resent = record.workers[0].dropped = record.workers[0].spans_lost = 0;
  EXPECT_THAT(run_text(record, false), EndsWith("equal\n"));
}

TEST(RunRecord, TellsOfWhatIsCountedApart) {
  RunRecord record = sample_run_record();
  record.checkpoints = {.taken = 2,
                        .failed = 1,
                        .seconds = 0.5,
                        .in_memory = 4,
                        .in_memory_seconds = 0.25,
                        .bytes = 3072,
                        .in_memory_bytes = 6144};
  EXPECT_THAT(run_text(record, false),
              HasSubstr("checkpoints                                 2    3 KiB    0.500\n"
                        "checkpoints in memory                       4    6 KiB    0.250\n"
                        "checkpoints that could not be written       1        -        -\n"));
  record.recoveries.resize(7, record.recoveries[0]);
  EXPECT_THAT(run_text(record, false), EndsWith("was lost: signal 9\nand 2 restarts more\n"));
}

TEST(RunRecord, TellsBehindWhatItWentOnAndCountsFromThere) {
  RunRecord record = sample_run_record();
  record.checkpoints = {.resumed_steps = 40};
  EXPECT_THAT(run_text(record, false),
              HasSubstr("went on behind 40 steps: times, messages and restarts are of what "
                        "followed\n"));
  record.checkpoints->resumed_steps = 0;
  EXPECT_THAT(run_text(record, false), Not(HasSubstr("went on")));
}

// What earlier versions did not count is not told as nothing.
TEST(RunRecord, TellsNoBytesWhereARecordHasNone) {
  Json json = to_json(sample_run_record());
  for (const char* key : {"repeated_messages", "repeated_bytes", "unanswered_tasks", "recoveries"})
    json.erase(key);
  json["control"].erase("fenced");
  json["checkpoints"] =
      parse_json(R"({"resumed_steps": 0, "taken": 2, "failed": 0, "seconds": 0.5})", "run.json");
  const std::string text = run_text(read_run_record(json_text(json), "run.json"), false);
  EXPECT_THAT(text, HasSubstr("restarts               2       -        -\n"
                              "tasks done again      11       -        -\n"));
  EXPECT_THAT(text, HasSubstr("checkpoints            2       -    0.500\n"));
  EXPECT_THAT(text, Not(HasSubstr("restarted ")));
}

TEST(RunRecord, HasWhatIsCountedApartForPrograms) {
  RunRecord record = sample_run_record();
  const Json json = parse_json(write_run_record(record), "run.json");
  EXPECT_EQ(json["unanswered_tasks"], 6);
  EXPECT_EQ(json["recoveries"][0]["discarded_tasks"], 8);
  EXPECT_TRUE(json["recoveries"][1]["worker"].is_null());
  EXPECT_EQ(json["control"]["fenced"], 0);
  const Json of_program = to_json(apart_of(record));
  EXPECT_EQ(of_program["commits"]["bytes"], 13312);
  EXPECT_EQ(of_program["checkpoints"]["number"], 0);
  EXPECT_EQ(of_program["unanswered_tasks"], 6);
}

TEST(RunRecord, BlamesNoWorkerWhereOperatorsTookOtherTimes) {
  RunRecord record = sample_run_record();
  record.rebalances[0].slowness = 1.1;
  EXPECT_THAT(
      run_text(record, false),
      HasSubstr("planned anew behind 40 steps: operators took other times than was planned; "
                "a step from 250 ms to 125 ms"));
}

TEST(RunRecord, TellsOfWhatWasLostOnTheWay) {
  RunRecord record = sample_run_record();
  record.control.dropped = 2;
  record.control.refused = 4;
  record.control.fenced = 4;
  record.workers.push_back(record.workers[0]);
  EXPECT_THAT(
      run_text(record, false),
      EndsWith("equal\n"
               "memory of the scheduler's host for copies that a restart needs, on top "
               "of the peaks: two of 4 KiB\n"
               "planned anew behind 40 steps: worker 1 took 2.50 times as long as was "
               "planned, beside the one of which that was least; a step from 250 ms to "
               "125 ms, 4 KiB of weights moved, in 1.5 s\n"
               "worker 1 took 1.9 times as long as it did, beside the others, from step 20 "
               "to 40\n"
               "worker 0 took 3.0 times as long as it did, beside the others, from step 50 "
               "on\n"
               "the pipeline drained behind every 25 steps\n"
               "encrypted  what workers sent each other over tcp\n"
               "resent     1 control message that had not arrived in time\n"
               "dropped    2 control messages that nobody of this run sent, or twice\n"
               "refused    4 connections of strangers, who have no key of this run\n"
               "resent     6 messages between workers that had not arrived in time\n"
               "dropped    4 messages between workers that nobody of this run sent, or "
               "twice\n"
               "lost       14 spans of the trace, which had no room for more\n"
               "\n"
               "counted apart                  number    bytes  seconds\n"
               "restarts                            2        -    0.750\n"
               "tasks done again                   11  2.5 KiB        -\n"
               "tasks under way at a loss           6        -        -\n"
               "commits                             3   13 KiB    0.125\n"
               "messages of workers of before       4        -        -\n"
               "restarted from step 38, to do 8 tasks again that had been done, in 0.500 s: "
               "worker 1 was lost: signal 9\n"
               "restarted before round 40, having done all before 41, in 0.250 s: a worker "
               "was lost\n"));
}

}  // namespace
}  // namespace kerf::apps
