#include "apps/report/page.h"

#include <algorithm>

#include "apps/report/cut_picture.h"
#include "apps/report/loss_picture.h"
#include "apps/report/page_style.h"
#include "apps/report/page_table.h"
#include "apps/report/table.h"
#include "apps/report/timeline_picture.h"
#include "partitioner/svg.h"
#include "runtime/format.h"

namespace kerf::apps {

using partitioner::escape_xml;

namespace {

// Predictions farther off than this are drawn again, stretched to what was measured.
constexpr double kFarOff = 2;
constexpr double kTooFarOff = 1e6;  // where one of the two could not be seen
constexpr size_t kMostRoutesTold = 50;

std::string section(const std::string& title, const std::string& body) {
  return format("<section>\n<h2>{}</h2>\n{}</section>\n", title, body);
}

std::string paragraph(const std::string& words) { return format("<p>{}</p>\n", escape_xml(words)); }

std::string picture(const std::string& svg) {
  return format("<div class=\"wide\">\n{}</div>\n", svg);
}

std::string legend() {
  std::string text = "<p class=\"legend\">";
  for (const auto& [colour, words] :
       {std::pair("forward", "F forward"), std::pair("inputs", "I gradients of inputs"),
        std::pair("weights", "W gradients of weights"), std::pair("both", "B both"),
        std::pair("other", "U update, not priced")})
    text += format("<span class=\"key\" style=\"background:var(--{})\"></span>{} ", colour, words);
  return text + "</p>\n";
}

std::string untraced(const RunRecord& record) {
  if (record.kind != "train") return "only training has steps to trace";
  return record.untraced.empty()
             ? "this run was recorded without a step: train again, with --trace-steps 2 or more"
             : record.untraced;
}

std::string gantt_section(const RunRecord& record) {
  if (!record.traced) return section("Predicted beside measured", paragraph(untraced(record)));
  const TracedStep& traced = *record.traced;
  std::string body = paragraph(
      format("Step {}, of those that were traced the one that took the median time: predicted {}, "
             "measured {}. An action lasts from when it first computes or copies to its end.",
             traced.step, human_seconds(traced.predicted_seconds),
             human_seconds(traced.measured_seconds)));
  body += legend() + picture(draw_timeline(traced));
  const double ratio =
      traced.predicted_seconds > 0 ? traced.measured_seconds / traced.predicted_seconds : 1;
  const double off = std::max(ratio, 1 / ratio);
  if (off > kFarOff && off < kTooFarOff)
    body += paragraph(format("The same, with what was predicted taking {:.3g} times as long as it "
                             "was to. kerf plan --profile DIR plans by what this run measured.",
                             ratio)) +
            picture(draw_timeline(traced, ratio));
  return section("Predicted beside measured", body);
}

void add_idle(PageTable& table, int worker, const char* which, const TracedStep::Idle& idle,
              double seconds) {
  const auto share = [&](double part) {
    return seconds > 0 ? human_percent(part / seconds) : std::string("-");
  };
  table.add({format("{}", worker), which, share(idle.total()), share(idle.fill),
             share(idle.dependency), share(idle.communication), share(idle.imbalance),
             share(idle.within), share(idle.drain)});
}

std::string bubble_section(const RunRecord& record) {
  if (!record.traced) return {};
  PageTable table({"worker", "", "idle", "until its first action", "for what others compute",
                   "for messages", "as others have more to do", "within its actions",
                   "after its last"});
  for (const TracedStep::Worker& worker : record.traced->workers) {
    add_idle(table, worker.worker, "predicted", worker.predicted, record.traced->predicted_seconds);
    add_idle(table, worker.worker, "measured", worker.measured, record.traced->measured_seconds);
  }
  return section("Bubbles", paragraph("Of the time until the last action of a micro-batch ends.") +
                                table.html());
}

std::string missed_section(const RunRecord& record) {
  if (!record.traced) return {};
  PageTable table({"action", "worker", "predicted", "measured", "ratio"});
  for (const TracedStep::Missed& each : record.traced->missed())
    table.add({each.action, format("{}", each.worker), human_seconds(each.predicted_seconds),
               human_seconds(each.measured_seconds),
               each.ratio ? format("{:.2f}", *each.ratio) : "-"});
  return section("The ten actions that missed their prediction most",
                 paragraph("By seconds of computing and copying, without what they wait. Updates "
                           "are not priced.") +
                     table.html());
}

std::string cut_section(const RunRecord& record) {
  const PlanRecord& plan = record.plan;
  std::string body = paragraph(
      format("{}, {} cut over {}, batch {} in {}, {}. Values go above, gradients below, bytes are "
             "of a step; the step vector takes {} more.",
             plan.model, plan.cut, plural(static_cast<long long>(plan.workers.size()), "worker"),
             plan.batch, partitioner::sizes_in_words(plan.micro_batches, plan.given_sizes),
             plan.schedule, human_bytes(static_cast<double>(plan.per_step().step.bytes))));
  if (const std::string svg = draw_cut(plan); !svg.empty())
    return section("The cut", body + picture(svg));
  PageTable table({"from worker", "to worker", "", "messages", "bytes"});
  std::vector<PlanRecord::Route> routes = plan.routes;
  std::stable_sort(routes.begin(), routes.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  routes.resize(std::min(routes.size(), kMostRoutesTold));
  for (const PlanRecord::Route& each : routes)
    table.add({format("{}", each.from), format("{}", each.to),
               each.gradient ? "gradients" : "values", human_count(each.messages),
               bytes_text(each.bytes)});
  body +=
      paragraph(format("Too many workers to be drawn here; plan.svg of the run's folder shows "
                       "them. Of {} these send most:",
                       plural(static_cast<long long>(plan.routes.size()), "route")));
  return section("The cut", body + table.html());
}

std::string loss_section(const RunRecord& record) {
  if (record.losses.empty()) return {};
  const std::string svg = draw_losses(record.losses);
  std::string body = svg.empty() ? paragraph("No loss was finite.") : picture(svg);
  if (!record.skipped.empty())
    body += paragraph(format("{} skipped: {} of step {} was not finite.",
                             plural(static_cast<long long>(record.skipped.size()), "step"),
                             record.skipped.front().cause, record.skipped.front().step));
  return section("Loss", body);
}

// And what is kept against them; nothing where nothing was.
void add_disturbances(PageTable& figures, const RunRecord& record) {
  for (const ApartRow& row : rows_of(apart_of(record)))
    figures.add({row.what, human_count(row.number) +
                               (row.bytes ? ", " + bytes_text(*row.bytes) : std::string()) +
                               (row.seconds ? format(", {:.3f} s", *row.seconds) : std::string())});
  for (const RunRecord::Slow& each : record.slow) figures.add({"slow", slow_text(each)});
}

std::string figures_section(const RunRecord& record) {
  PageTable figures({"", ""});
  const auto rate = [](double per_second) {
    return human_count(static_cast<long long>(std::clamp(per_second, 0.0, 1e18)));
  };
  if (!record.losses.empty())
    figures.add({"steps", human_count(static_cast<long long>(record.losses.size()))});
  figures.add({"took", human_seconds(record.seconds)});
  if (record.rows_per_second) figures.add({"rows/s", rate(*record.rows_per_second)});
  if (const auto tokens = record.tokens_per_second()) figures.add({"tokens/s", rate(*tokens)});
  if (record.median_step_seconds)
    figures.add({"median step", human_seconds(*record.median_step_seconds)});
  const partitioner::Traffic predicted = record.predicted();
  const partitioner::Traffic counted = record.counted();
  figures.add({"messages", format("{} predicted, {} counted", human_count(predicted.messages),
                                  human_count(counted.messages))});
  figures.add(
      {"bytes", format("{} predicted, {} counted: {}", human_count(predicted.bytes),
                       human_count(counted.bytes), record.equal() ? "equal" : "DIFFERENT")});
  if (const std::string accuracy = accuracy_text(record, false); !accuracy.empty())
    figures.add({"test", accuracy});
  if (const auto& saved = record.checkpoints; saved && saved->resumed_steps > 0)
    figures.add({"went on behind", format("{}: times, messages and restarts are of what followed",
                                          plural(saved->resumed_steps, "step"))});
  add_disturbances(figures, record);
  PageTable workers(
      {"worker", "device", "compute", "wait", "messages", "out", "in", "peak memory", "proved"});
  for (const RunRecord::Worker& each : record.workers)
    workers.add({format("{}", each.worker), each.device, human_seconds(each.compute_seconds),
                 human_seconds(each.wait_seconds), human_count(each.messages),
                 bytes_text(each.bytes_out), bytes_text(each.bytes_in), bytes_text(each.peak_bytes),
                 bytes_text(each.proved_bytes)});
  return section("Figures", figures.html() + workers.html());
}

}  // namespace

std::string report_page(const RunRecord& record) {
  const std::string title = format("kerf: {} over {}", record.plan.model,
                                   plural(static_cast<long long>(record.workers.size()), "worker"));
  return format(
             "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
             "<meta name=\"viewport\" content=\"width=device-width\">\n<title>{0}</title>\n"
             "<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
             escape_xml(title), kPageStyle) +
         figures_section(record) + gantt_section(record) + bubble_section(record) +
         missed_section(record) + cut_section(record) + loss_section(record) + "</body>\n</html>\n";
}

}  // namespace kerf::apps
