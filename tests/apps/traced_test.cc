// What spans of a run say of its actions: whole steps, what actions take, where messages go, what
// they cost; and the pictures of the report's page at their edges.
#include "apps/report/traced.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/report/cut_picture.h"
#include "apps/report/loss_picture.h"
#include "apps/report/measured_costs.h"
#include "apps/report/page.h"
#include "apps/report/timeline_picture.h"
#include "apps/report/trace_drawing.h"
#include "tests/support/sample_run_record.h"

namespace kerf::apps {
namespace {

using runtime::Span;
using runtime::TraceRow;
using runtime::WorkerTrace;
using schedmp::Action;
using schedmp::ActionKind;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Kind = Span::Kind;
constexpr int64_t kMs = 1'000'000;

const schedmp::Schedule kTwoWorkers = schedmp::parse_schedule(
    "kerf-schedule 1\nname two\nworkers 2\nmicro-batches 1\nstage 0 on 0\nstage 1 on 1\n"
    "row 0: 0F0 0B0 0U\nrow 1: 1F0 1B0 1U\n",
    "two");

std::vector<std::vector<Action>> shown_of(const schedmp::Schedule& schedule) {
  return shown_actions(schedmp::Steps(schedule), schedule.workers());
}

Span span(const char* name, Kind kind, int32_t row, int64_t begin, int64_t end, uint64_t flow = 0,
          int64_t step = 3) {
  return {name, kind, row, begin * kMs, end * kMs, flow, step};
}
Span action(const char* name, int64_t begin, int64_t end, int64_t step = 3) {
  return span(name, Kind::kCompute, TraceRow::kActions, begin, end, 0, step);
}

// In ms; x goes forth, y back.
//
//   worker 0  0F0 . . . . . . . . . . 0B0 ...... 0U
//   worker 1  . . . [wait] 1F0 1B0                 1U
std::vector<WorkerTrace> step_of_two() {
  return {{0,
           "worker 0",
           {action("0F0", 10, 20), action("0B0", 50, 70), action("0U", 70, 72),
            action("0U", 74, 75), span("send x", Kind::kSend, TraceRow::kMessages, 18, 19, 1),
            span("receive y", Kind::kReceive, TraceRow::kMessages, 45, 45, 2),
            span("wait for z", Kind::kWait, TraceRow::kWaits, 55, 60, 0),
            span("a input gradient", Kind::kCompute, TraceRow::kOperators, 50, 53),
            span("a weight gradient", Kind::kCompute, TraceRow::kOperators, 60, 61)}},
          {1,
           "worker 1",
           {action("1F0", 25, 30), action("1B0", 30, 44), action("1U", 80, 81),
            span("wait for x", Kind::kWait, TraceRow::kWaits, 12, 22, 1),
            span("receive x", Kind::kReceive, TraceRow::kMessages, 22, 23, 1),
            span("send y", Kind::kSend, TraceRow::kMessages, 43, 44, 2)}}};
}

std::vector<WorkerTrace> joined(std::vector<WorkerTrace> traces) {
  join_lists(traces);
  return traces;
}

TEST(StepSpans, OfAnActionsListsAreOne) {
  const auto traces = joined(step_of_two());
  const auto& spans = traces[0].spans;
  EXPECT_EQ(std::ranges::count_if(spans, [](const Span& s) { return s.name == "0U"; }), 1);
  EXPECT_EQ(spans[2].begin_ns, 70 * kMs);
  EXPECT_EQ(spans[2].end_ns, 75 * kMs);
}

TEST(StepSpans, OnlyWholeStepsOfAllRowsCount) {
  const auto shown = shown_of(kTwoWorkers);
  EXPECT_EQ(shown[0].size(), 3U);
  const auto traces = joined(step_of_two());
  EXPECT_EQ(whole_steps(traces, shown, {3}).size(), 1U);
  EXPECT_THAT(whole_steps(traces, shown, {2}), IsEmpty()) << "it had fewer rows";
  for (const size_t lost : {0, 1, 2}) {
    auto some = traces;
    some[1].spans.erase(some[1].spans.begin() + static_cast<std::ptrdiff_t>(lost));
    EXPECT_THAT(whole_steps(some, shown, {3}), IsEmpty()) << lost;
  }
}

TEST(StepSpans, TheFirstOfSeveralIsLeftOut) {
  auto traces = joined(step_of_two());
  for (WorkerTrace& trace : traces) {
    const std::vector<Span> once = trace.spans;
    for (Span each : once) {
      each.step = 4;
      trace.spans.push_back(each);
    }
  }
  const auto steps = whole_steps(traces, shown_of(kTwoWorkers), {3, 4});
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].step, 4);
}

TEST(StepSpans, ABusyActionDoesNotWait) {
  const auto traces = joined(step_of_two());
  const auto shown = shown_of(kTwoWorkers);
  const auto steps = whole_steps(traces, shown, {3});
  const auto rows = measured_rows(steps[0], shown);
  EXPECT_DOUBLE_EQ(rows[0][1].begin, 0.040);
  EXPECT_DOUBLE_EQ(rows[0][1].end, 0.060);
  EXPECT_DOUBLE_EQ(rows[0][1].busy, 0.015);
  EXPECT_DOUBLE_EQ(rows[1][0].busy, 0.005) << "what it waited for before is not its time";
  EXPECT_DOUBLE_EQ(seconds_of(rows, false), 0.060) << "updates come after";
}

TEST(MeasuredCosts, AreBusySecondsAndWhatAMessageTakes) {
  const auto traces = joined(step_of_two());
  const auto shown = shown_of(kTwoWorkers);
  const auto steps = whole_steps(traces, shown, {3});
  const schedmp::ActionCosts costs = measured_costs(kTwoWorkers, shown, steps);
  ASSERT_EQ(costs.stages.size(), 2U);
  EXPECT_DOUBLE_EQ(costs.stages[0].forward, 0.010);
  EXPECT_NEAR(costs.stages[0].input_gradient, 0.015 * 3 / 4, 1e-12);
  EXPECT_NEAR(costs.stages[0].weight_gradient, 0.015 / 4, 1e-12);
  EXPECT_NEAR(costs.stages[1].input_gradient, 0.007, 1e-12) << "without operators to go by, half";
  EXPECT_NEAR(costs.stages[0].update, 0.005, 1e-12);
  EXPECT_DOUBLE_EQ(costs.transfer, 0.004) << "x was awaited; y lay there";
}

// Small ones take more than their rows' share, since an action takes some time that no row adds to.
TEST(MeasuredCosts, AreThoseOfTheLargestMicroBatchAndWhatOthersTookBesideIt) {
  const schedmp::Schedule one = schedmp::parse_schedule(
      "kerf-schedule 1\nname one\nworkers 1\nmicro-batches 3\nstage 0 on 0\n"
      "row 0: 0F0 0F1 0F2 0B0 0B1 0B2 0U\n",
      "one");
  const std::vector<WorkerTrace> traces{
      {0,
       "worker 0",
       {action("0F0", 0, 2), action("0F1", 2, 12), action("0F2", 12, 14), action("0B0", 14, 18),
        action("0B1", 18, 38), action("0B2", 38, 42), action("0U", 42, 47)}}};
  const auto shown = shown_of(one);
  const auto steps = whole_steps(traces, shown, {3});
  ASSERT_EQ(steps.size(), 1U);
  const schedmp::ActionCosts costs =
      measured_costs(one, shown, steps, {{0.1, 0.1}, {1, 1}, {0.1, 0.1}});
  EXPECT_DOUBLE_EQ(costs.stages[0].forward, 0.010);
  EXPECT_NEAR(costs.stages[0].input_gradient, 0.010, 1e-12);
  EXPECT_NEAR(costs.stages[0].update, 0.005, 1e-12) << "it is of no micro-batch";
  EXPECT_DOUBLE_EQ(costs.shares[1].seconds, 1);
  EXPECT_NEAR(costs.shares[0].seconds, 6.0 / 30, 1e-12);
  EXPECT_DOUBLE_EQ(costs.shares[0].bytes, 0.1);
  EXPECT_NEAR(costs.of({0, ActionKind::kForward, 0}), 0.002, 1e-12);
}

TEST(MeasuredCosts, ClocksThatAreAskewCancelOut) {
  const auto shown = shown_of(kTwoWorkers);
  const auto transfer = [&](int64_t askew) {
    auto traces = step_of_two();
    traces[0].spans.push_back(span("wait for y", Kind::kWait, TraceRow::kWaits, 40, 45, 2));
    runtime::shift(traces[1].spans, askew * kMs);
    traces = joined(std::move(traces));
    return measured_costs(kTwoWorkers, shown, whole_steps(traces, shown, {3})).transfer;
  };
  EXPECT_DOUBLE_EQ(transfer(0), 0.003) << "4 there, 2 back";
  EXPECT_DOUBLE_EQ(transfer(2), 0.003);
  EXPECT_DOUBLE_EQ(transfer(-1), 0.003);
}

TEST(TraceDrawing, ArrowsGoFromActionToAction) {
  auto traces = joined(step_of_two());
  draw_messages(traces);
  ASSERT_EQ(traces[0].arrows.size(), 2U);
  const runtime::ArrowEnd& leaves = traces[0].arrows[0];
  EXPECT_EQ(leaves.at_ns, 18 * kMs);
  EXPECT_FALSE(leaves.arrives);
  EXPECT_EQ(traces[0].arrows[1].at_ns, 50 * kMs) << "it was there before 0B0 began";
  EXPECT_EQ(traces[1].arrows[0].at_ns, 25 * kMs);
  EXPECT_EQ(traces[1].arrows[0].flow, leaves.flow);
  for (const WorkerTrace& trace : traces)
    for (const runtime::ArrowEnd& end : trace.arrows) EXPECT_EQ(end.lane, TraceRow::kActions);
}

TEST(TraceDrawing, AMessageOfWhichAnEndWasLostHasNoArrow) {
  auto traces = joined(step_of_two());
  std::erase_if(traces[1].spans, [](const Span& s) { return s.name == "receive x"; });
  draw_messages(traces);
  EXPECT_EQ(traces[0].arrows.size(), 1U);
  EXPECT_EQ(traces[1].arrows.size(), 1U);
}

TEST(TraceDrawing, MemoryIsTakenAsAnActionBeginsAndGivenAsItEnds) {
  std::vector<WorkerTrace> traces = {{0, "worker 0", {}}};
  const UsedMemory memory{{{{{64, 0}, {0, 64}, {0, 0}}, 64}}, {100}};
  const schedmp::Moment f{{0, ActionKind::kForward, 0}, 0.001, 0.002, 0.001};
  const schedmp::Moment b{{0, ActionKind::kBackward, 0}, 0.003, 0.005, 0.002};
  // Its update is two lists.
  draw_memory(traces, memory, {{0, 1, 1}}, "memory", {{f, b}}, 10 * kMs);
  ASSERT_EQ(traces[0].counters.size(), 1U);
  std::vector<int64_t> told;
  for (const auto& sample : traces[0].counters[0].samples) {
    told.push_back(sample.at_ns / kMs);
    told.push_back(sample.bytes);
  }
  EXPECT_THAT(told, ElementsAre(10, 36, 11, 100, 15, 36));
}

TEST(TracedStep, MissesByWhatIsBusyAndPriced) {
  schedmp::Timeline timeline;
  timeline.rows = {{{{0, ActionKind::kForward, 0}, 0, 0.010, 0.010},
                    {{0, ActionKind::kBackward, 0}, 0.020, 0.040, 0.015},
                    {{0, ActionKind::kUpdate}, 0.040, 0.040, 0},
                    {{0, ActionKind::kUpdate}, 0.040, 0.041, 0}},
                   {{{1, ActionKind::kForward, 0}, 0.011, 0.012, 0.001},
                    {{1, ActionKind::kBackward, 0}, 0.012, 0.020, 0.008},
                    {{1, ActionKind::kUpdate}, 0.020, 0.020, 0}}};
  const auto traces = joined(step_of_two());
  const auto shown_rows = shown_of(kTwoWorkers);
  const auto steps = whole_steps(traces, shown_rows, {3});
  const TracedStep traced =
      traced_step(kTwoWorkers, partitioner::chain_of_stages(2), shown(timeline).rows,
                  measured_rows(steps[0], shown_rows), {3});
  EXPECT_DOUBLE_EQ(traced.predicted_seconds, 0.040);
  const auto missed = traced.missed();
  ASSERT_EQ(missed.size(), 4U) << "updates are not priced";
  EXPECT_EQ(missed[0].action, "1B0");
  EXPECT_NEAR(*missed[0].ratio, 14.0 / 8, 1e-9);
  EXPECT_EQ(missed[1].action, "1F0");
  for (const TracedStep::Worker& worker : traced.workers) {
    double predicted = 0, measured = 0;
    for (const TracedStep::Done& each : worker.actions)
      if (each.priced) {
        predicted += each.predicted.busy;
        measured += each.measured.busy;
      }
    EXPECT_NEAR(predicted + worker.predicted.total(), traced.predicted_seconds, 1e-12);
    EXPECT_NEAR(measured + worker.measured.total(), traced.measured_seconds, 1e-12);
  }
  EXPECT_NEAR(traced.workers[0].measured.within, 0.005, 1e-12);
  EXPECT_NEAR(traced.workers[1].measured.fill, 0.015, 1e-12);
}

// Rows of a step that goes on are its own, whenever the others' begin: nobody fills or drains, and
// the longest row is what a step takes.
TEST(TracedStep, ThatGoesOnIsItsLongestRow) {
  const schedmp::Schedule schedule = schedmp::parse_schedule(
      "kerf-schedule 1\nname two\nworkers 2\nmicro-batches 1\nstage 0 on 0\nstage 1 on 1\n"
      "prologue 0: 0F0\nsteady 0: 0F1 0B0 0U0\nprologue 1:\nsteady 1: 1F0 1B0 1U0\n",
      "two");
  const std::vector<std::vector<schedmp::Moment>> rows = {
      {{{0, ActionKind::kForward, 1}, 0.010, 0.020, 0.010},
       {{0, ActionKind::kBackward, 0}, 0.025, 0.040, 0.015},
       {{0, ActionKind::kUpdate, 0}, 0.040, 0.041, 0.001}},
      {{{1, ActionKind::kForward, 0}, 0.000, 0.008, 0.008},
       {{1, ActionKind::kBackward, 0}, 0.008, 0.024, 0.016},
       {{1, ActionKind::kUpdate, 0}, 0.024, 0.026, 0.002}}};
  const TracedStep traced =
      traced_step(schedule, partitioner::chain_of_stages(2), rows, rows, {7, true});
  EXPECT_EQ(traced.step, 7);
  EXPECT_DOUBLE_EQ(traced.measured_seconds, 0.031) << "of worker 0, not the 41 of both";
  EXPECT_DOUBLE_EQ(traced.workers[0].measured.total(), 0.005);
  EXPECT_DOUBLE_EQ(traced.workers[1].measured.total(), 0.005) << "before the next step's";
}

TEST(LossPicture, HasGapsWhereALossIsNotFinite) {
  EXPECT_THAT(draw_losses({}), IsEmpty());
  EXPECT_THAT(draw_losses({std::nullopt}), IsEmpty());
  const std::string text = draw_losses({2, 1, std::nullopt, 0.5, 1e300, -1e300});
  EXPECT_THAT(text, Not(HasSubstr("nan")));
  EXPECT_THAT(text, Not(HasSubstr("inf")));
  std::vector<std::optional<double>> many(100'000, 0.5);
  many[70'000] = 9;
  EXPECT_LT(draw_losses(many).size(), 50'000U);
  EXPECT_THAT(draw_losses(many), HasSubstr(">9</text>"));
  EXPECT_THAT(draw_losses({1}), HasSubstr("<rect"));
}

TEST(CutPicture, OfWorkersThatThePlanHasNotIsNone) {
  PlanRecord plan = tests::sample_run_record().plan;
  plan.workers.resize(2);
  EXPECT_THAT(draw_cut(plan), HasSubstr("values from worker 0 to worker 1: 400 B a step"));
  for (const int worker : {-1, 2, INT32_MAX}) {
    PlanRecord strange = plan;
    strange.routes[0].to = worker;
    EXPECT_THAT(draw_cut(strange), IsEmpty());
    strange = plan;
    strange.stages[0].workers = {worker};
    EXPECT_THAT(draw_cut(strange), IsEmpty());
  }
  plan.workers.resize(kMostCutWorkers + 1);
  EXPECT_THAT(draw_cut(plan), IsEmpty());
}

TEST(ReportPage, TellsOfTheLargestRoutesWhereItCannotDraw) {
  RunRecord record = tests::sample_run_record();
  record.plan.workers.resize(kMostCutWorkers + 1);
  EXPECT_THAT(report_page(record), HasSubstr("<td>1</td><td>0</td><td>gradients</td>"));
}

TEST(ReportPage, TellsWhatDisturbedARunAndWhatWasKeptAgainstThat) {
  RunRecord record = tests::sample_run_record();
  record.checkpoints = {.taken = 2,
                        .seconds = 0.5,
                        .in_memory = 4,
                        .in_memory_seconds = 0.25,
                        .bytes = 3072,
                        .in_memory_bytes = 6144};
  const std::string page = report_page(record);
  for (const char* told :
       {"<td>restarts</td><td>2, 0.750 s</td>", "<td>tasks done again</td><td>11, 2.5 KiB</td>",
        "<td>commits</td><td>3, 13 KiB, 0.125 s</td>",
        "<td>checkpoints</td><td>2, 3 KiB, 0.500 s</td>",
        "<td>checkpoints in memory</td><td>4, 6 KiB, 0.250 s</td>",
        "worker 1 took 1.9 times as long as it did, beside the others, from step 20 to 40"})
    EXPECT_THAT(page, HasSubstr(told));
  record.restarts = 0;
  record.kept.reset();
  EXPECT_THAT(report_page(record), Not(HasSubstr("restart")));
}

TEST(ReportPage, TellsBehindWhatARunWentOn) {
  RunRecord record = tests::sample_run_record();
  record.checkpoints = {.resumed_steps = 40};
  EXPECT_THAT(report_page(record),
              HasSubstr("<td>went on behind</td><td>40 steps: times, messages and restarts are of "
                        "what followed</td>"));
  record.checkpoints->resumed_steps = 0;
  EXPECT_THAT(report_page(record), Not(HasSubstr("went on")));
}

TEST(TimelinePicture, OfNoTimeIsNone) {
  TracedStep traced;
  traced.workers.resize(2);
  EXPECT_THAT(draw_timeline(traced), IsEmpty());
  traced.workers[0].actions = {{"0F0", true, {0, 1e-9, 0}, {0, 1e9, 0}}};
  EXPECT_THAT(draw_timeline(traced, 1e18), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace kerf::apps
