#include "apps/kerf/train_report.h"

#include "apps/kerf/plan_report.h"
#include "apps/report/table.h"
#include "apps/report/terminal.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

std::string bytes(int64_t count) { return human_bytes(static_cast<double>(count)); }

Json evaluations_report(const schedmp::Training& training) {
  Json list = Json::array();
  for (const auto& record : training.evaluations())
    list.push_back({{"epoch", record.after_epoch + 1},  // as people count
                    {"rows", record.rows},
                    {"correct", record.correct},
                    {"loss", record.loss},
                    {"accuracy", record.accuracy()}});
  return list;
}

Json workers_report(const Planned& planned, const Outcome& outcome) {
  Json list = Json::array();
  for (const auto& figures : outcome.training->workers()) {
    const auto at = static_cast<size_t>(figures.worker);
    const auto& prediction = planned.plan.workers[at];
    list.push_back({{"worker", figures.worker},
                    {"pid", outcome.crew[at].pid},
                    {"device", outcome.crew[at].device},
                    {"compute_seconds", figures.compute_seconds},
                    {"wait_seconds", figures.wait_seconds},
                    {"messages", figures.messages},
                    {"bytes_in", figures.bytes_in},
                    {"bytes_out", figures.bytes_out},
                    {"local_messages", figures.local_messages},
                    {"local_bytes", figures.local_bytes},
                    {"peak_bytes", figures.peak_bytes},
                    {"proved_bytes", figures.proved_bytes},
                    {"predicted_peak_bytes", outcome.training->verdict().peak_bytes[at]},
                    {"predicted_step_seconds", prediction.seconds}});
  }
  return list;
}

Json routes_report(const Planned& planned, const Outcome& outcome) {
  Json list = Json::array();
  for (const auto& route : planned.plan.routes) {
    const auto& figures = outcome.training->routes()[static_cast<size_t>(route.id)];
    list.push_back({{"value", planned.model.value(route.value).name},
                    {"gradient", route.gradient},
                    {"from", planned.plan.binding[static_cast<size_t>(route.from)]},
                    {"to", planned.plan.binding[static_cast<size_t>(route.to)]},
                    {"predicted_messages", figures.predicted_messages},
                    {"messages", figures.messages},
                    {"predicted_bytes", figures.predicted_bytes},
                    {"bytes", figures.bytes}});
  }
  return list;
}

Json traffic_json(const partitioner::Traffic& traffic) {
  return {{"messages", traffic.messages}, {"bytes", traffic.bytes}};
}

// A figure between steps takes two of them.
Json if_known(double figure) { return figure > 0 ? Json(figure) : Json(nullptr); }

}  // namespace

Traffic traffic_of(const Outcome& outcome) {
  Traffic sum;
  for (const auto& route : outcome.training->routes()) {
    sum.predicted.messages += route.predicted_messages;
    sum.predicted.bytes += route.predicted_bytes;
    sum.counted.messages += route.messages;
    sum.counted.bytes += route.bytes;
    sum.equal = sum.equal && route.predicted_messages == route.messages &&
                route.predicted_bytes == route.bytes;
  }
  return sum;
}

void check_traffic(const Planned& planned, const Outcome& outcome) {
  for (const auto& route : planned.plan.routes) {
    const auto& figures = outcome.training->routes()[static_cast<size_t>(route.id)];
    if (figures.messages == figures.predicted_messages && figures.bytes == figures.predicted_bytes)
      continue;
    throw Error(
        ErrorCode::kInternal,
        format("PREDICTED AND COUNTED DIFFER: {} messages of {} bytes were predicted, {} of {} "
               "counted; the plan's costs are wrong",
               figures.predicted_messages, figures.predicted_bytes, figures.messages,
               figures.bytes),
        format("{} of {} from worker {} to {}", route.gradient ? "gradient" : "values",
               planned.model.value(route.value).name,
               planned.plan.binding[static_cast<size_t>(route.from)],
               planned.plan.binding[static_cast<size_t>(route.to)]));
  }
}

Json train_report(const Planned& planned, const Outcome& outcome) {
  const schedmp::Training& training = *outcome.training;
  const Traffic traffic = traffic_of(outcome);
  Json losses = Json::array();
  for (const auto& step : training.steps()) losses.push_back(step.loss);
  Json report{{"model", planned.plan.model},
              {"plan", plan_report(planned.model, planned.plan)},
              {"steps", training.steps().size()},
              {"losses", std::move(losses)},
              {"evaluations", evaluations_report(training)}};
  if (training.evaluations().empty())
    report["accuracy"] = nullptr;
  else
    report["accuracy"] = training.evaluations().back().accuracy();
  report["seconds"] = outcome.loop.seconds;
  report["images_per_second"] = if_known(outcome.images_per_second);
  report["median_step_seconds"] = if_known(outcome.median_step_seconds);
  report["workers"] = workers_report(planned, outcome);
  report["predicted"] = traffic_json(traffic.predicted);
  report["counted"] = traffic_json(traffic.counted);
  report["equal"] = traffic.equal;
  report["control"] = {{"sent", outcome.control.sent},
                       {"received", outcome.control.received},
                       {"resent", outcome.control.resent},
                       {"dropped", outcome.control.dropped}};
  report["routes"] = routes_report(planned, outcome);
  return report;
}

std::string train_text(const Outcome& outcome, bool colour) {
  const schedmp::Training& training = *outcome.training;
  std::string text;
  if (!training.steps().empty()) {
    text += format("{} in {}", plural(static_cast<long long>(training.steps().size()), "step"),
                   human_seconds(outcome.loop.seconds));
    if (outcome.images_per_second > 0)
      text +=
          format(", {} images/s", human_count(static_cast<long long>(outcome.images_per_second)));
    text += format(", loss of the last step {:.4f}\n", training.steps().back().loss);
  }
  if (!training.evaluations().empty()) {
    const auto& last = training.evaluations().back();
    const std::string accuracy = format("{:.2f} %", last.accuracy() * 100);
    text += format("test accuracy {} ({} of {}), test loss {:.4f}\n",
                   painted(accuracy, Ink::kBold, colour), human_count(last.correct),
                   plural(last.rows, "image"), last.loss);
  }
  Table table(
      {"worker", "pid", "compute", "wait", "messages", "out", "in", "peak memory", "proved"});
  for (const auto& figures : training.workers())
    table.add({format("{}", figures.worker),
               format("{}", outcome.crew[static_cast<size_t>(figures.worker)].pid),
               human_seconds(figures.compute_seconds), human_seconds(figures.wait_seconds),
               human_count(figures.messages), bytes(figures.bytes_out), bytes(figures.bytes_in),
               bytes(figures.peak_bytes),
               bytes(training.verdict().peak_bytes[static_cast<size_t>(figures.worker)])});
  text += "\n" + table.text(colour) + "\n";
  const Traffic traffic = traffic_of(outcome);
  text +=
      format("predicted  {}, {}\ncounted    {}, {}: {}\n",
             plural(traffic.predicted.messages, "message"), plural(traffic.predicted.bytes, "byte"),
             plural(traffic.counted.messages, "message"), plural(traffic.counted.bytes, "byte"),
             traffic.equal ? painted("equal", Ink::kGreen, colour)
                           : painted("DIFFERENT", Ink::kRed, colour));
  if (outcome.control.dropped > 0)
    text += format("dropped    {} that nobody of this run sent, or twice\n",
                   plural(outcome.control.dropped, "control message"));
  return text;
}

std::vector<runtime::WorkerTrace> traces_of(const Outcome& outcome) {
  auto spans = outcome.training->take_spans();
  std::vector<runtime::WorkerTrace> traces;
  for (size_t worker = 0; worker < spans.size(); ++worker) {
    const runtime::WorkerInfo& info = outcome.crew[worker];
    runtime::shift(spans[worker], info.clock_offset_ns);
    traces.push_back({static_cast<int32_t>(worker),
                      format("worker {} (pid {}, {})", worker, info.pid, info.device),
                      std::move(spans[worker])});
  }
  return traces;
}

}  // namespace kerf::apps
