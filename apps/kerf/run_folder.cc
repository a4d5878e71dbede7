#include "apps/kerf/run_folder.h"

#include <unistd.h>

#include <charconv>
#include <string_view>

#include "apps/kerf/plan_schedule.h"
#include "partitioner/picture.h"
#include "runtime/error.h"
#include "runtime/file.h"

namespace kerf::apps {

namespace {

namespace fs = std::filesystem;

constexpr const char* kScheduleFile = "schedule.txt";
constexpr const char* kPictureFile = "plan.svg";
constexpr std::string_view kShares = ".shares-";

// Share folders that killed runs left here, of whatever process: those of containers have the same
// numbers.
void remove_shares(const fs::path& out) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(out, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kShares)) continue;
    pid_t owner = 0;
    std::from_chars(name.data() + kShares.size(), name.data() + name.size(), owner);
    if (owner > 0) fs::remove_all(entry.path(), ignored);
  }
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
  if (!fs::equivalent(picture(), path_ / kPictureFile, absent)) forget(path_ / kPictureFile);
}

void RunFolder::keep(Planned& planned, const schedmp::Schedule& schedule) const {
  forget_earlier(planned.plan.schedule);
  if (!is_built_in(planned.plan.schedule)) {
    const fs::path file = path_ / kScheduleFile;
    std::error_code absent;
    if (!fs::equivalent(planned.plan.schedule, file, absent))
      runtime::write_file_atomic(file, schedmp::write_schedule(schedule));
    planned.plan.schedule = kScheduleFile;
  }
  runtime::write_file_atomic(path_ / kPlanFile, plan_text_to_keep(planned));
  draw(planned);
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

ShareFolder::ShareFolder(const fs::path& folder) : lock_(schedmp::lock_folder(folder)) {
  if (lock_ != nullptr) remove_shares(folder);  // else they are of a run that goes on
  std::string name = (fs::absolute(folder) / format("{}{}-XXXXXX", kShares, ::getpid())).string();
  if (::mkdtemp(name.data()) == nullptr)
    throw Error(ErrorCode::kUnavailable, "cannot make a folder here", folder.string());
  path_ = name;
}

ShareFolder::~ShareFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace kerf::apps
