#include "apps/kerf/run_folder.h"

#include <optional>
#include <string_view>
#include <system_error>

#include "apps/kerf/plan_schedule.h"
#include "partitioner/picture.h"
#include "runtime/error.h"
#include "runtime/file.h"

namespace kerf::apps {

namespace {

namespace fs = std::filesystem;

constexpr const char* kScheduleFile = "schedule.txt";
constexpr const char* kPictureFile = "plan.svg";
// On disk, but for its name.
void write_ahead(runtime::AtomicFile& file, std::string_view bytes) {
  file.write(bytes);
  file.settle();
}

}  // namespace

RunFolder::RunFolder(fs::path path, std::string picture)
    : path_(std::move(path)), picture_(std::move(picture)) {}

void RunFolder::make(const Planned& planned) const {
  std::error_code failure;
  fs::create_directories(path_, failure);
  if (!fs::is_directory(path_))
    throw Error(ErrorCode::kUsage,
                format("this is no folder and cannot become one: {}", failure.message()),
                path_.string());
  runtime::remove_abandoned_files(path_);
  if (!picture_.empty()) draw(planned);
}

void RunFolder::draw(const Planned& planned) const {
  runtime::write_file_atomic(picture(), partitioner::draw_svg(planned.model, planned.plan));
}

// What this run does not write over. The report goes first.
void RunFolder::forget_earlier(const fs::path& schedule) const {
  const auto forget = [](const fs::path& file) {
    std::error_code failure;
    fs::remove(file, failure);
    if (failure)
      throw Error(
          ErrorCode::kUnavailable,
          format("an earlier run left this, and it cannot be removed: {}", failure.message()),
          file.string());
  };
  std::error_code absent;
  forget(report());
  forget(page());
  forget(trace());
  forget(profile());  // a run without a trace has none
  if (!fs::equivalent(schedule, path_ / kScheduleFile, absent)) forget(path_ / kScheduleFile);
  if (!picture_.empty() && !fs::equivalent(picture_, path_ / kPictureFile, absent))
    forget(path_ / kPictureFile);
}

// What may fail for want of room is done before anything is gone.
void RunFolder::keep(Planned& planned, const schedmp::Schedule& schedule,
                     schedmp::SafetensorsWriter& weights) const {
  const std::string given = planned.plan.schedule;
  std::optional<runtime::AtomicFile> actions;  // where they come from a file
  if (!is_built_in(given)) {
    const fs::path file = path_ / kScheduleFile;
    std::error_code absent;
    if (!fs::equivalent(given, file, absent))
      write_ahead(actions.emplace(file), schedmp::write_schedule(schedule));
    planned.plan.schedule = kScheduleFile;
  }
  runtime::AtomicFile plan(path_ / kPlanFile);
  write_ahead(plan, plan_text_to_keep(planned));
  runtime::AtomicFile drawn(picture());
  write_ahead(drawn, partitioner::draw_svg(planned.model, planned.plan));

  forget_earlier(given);
  if (actions) actions->commit();
  plan.commit();
  drawn.commit();
  weights.commit();
}

fs::path RunFolder::picture() const {
  return picture_.empty() ? path_ / kPictureFile : fs::path(picture_);
}

std::string RunFolder::text() const {
  std::string text;
  const auto line = [&](const char* what, const fs::path& file, const char* hint = "") {
    if (fs::exists(file)) text += format("{:<9}{}{}\n", what, file.string(), hint);
  };
  line("plan", path_ / kPlanFile);
  line("picture", picture());
  line("trace", trace(), " (open in ui.perfetto.dev or chrome://tracing)");
  line("profile", profile(), " (for kerf plan --profile or --from-run)");
  line("weights", weights());
  line("report", report());
  line("page", page());
  return text;
}

}  // namespace kerf::apps
