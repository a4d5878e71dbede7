#include "apps/kerf/run_folder.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <string_view>

#include "partitioner/picture.h"
#include "runtime/error.h"
#include "runtime/file.h"

namespace kerf::apps {

namespace {

namespace fs = std::filesystem;

constexpr const char* kScheduleFile = "schedule.txt";
constexpr std::string_view kShares = ".shares-";

// Share folders that killed runs left here.
void remove_abandoned_shares(const fs::path& out) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(out, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kShares)) continue;
    pid_t owner = 0;
    std::from_chars(name.data() + kShares.size(), name.data() + name.size(), owner);
    if (owner > 0 && ::kill(owner, 0) != 0 && errno == ESRCH) fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace

RunFolder::RunFolder(fs::path path, std::string picture)
    : path_(std::move(path)), picture_(std::move(picture)) {}

void RunFolder::make() const {
  std::error_code failure;
  fs::create_directories(path_, failure);
  if (!fs::is_directory(path_))
    throw Error(ErrorCode::kUsage,
                format("this is no folder and cannot become one: {}", failure.message()),
                path_.string());
}

void RunFolder::keep(Planned& planned, const schedmp::Schedule& schedule) const {
  if (!is_built_in(planned.plan.schedule)) {
    const fs::path file = path_ / kScheduleFile;
    std::error_code absent;
    if (!fs::equivalent(planned.plan.schedule, file, absent))
      runtime::write_file_atomic(file, schedmp::write_schedule(schedule));
    planned.plan.schedule = kScheduleFile;
  }
  runtime::write_file_atomic(path_ / kPlanFile,
                             partitioner::write_plan(planned.model, planned.plan));
  runtime::write_file_atomic(picture(), partitioner::draw_svg(planned.model, planned.plan));
}

fs::path RunFolder::picture() const {
  return picture_.empty() ? path_ / "plan.svg" : fs::path(picture_);
}

std::string RunFolder::text() const {
  std::string text;
  const auto line = [&](const char* what, const fs::path& file, const char* hint = "") {
    if (fs::exists(file)) text += format("{:<9}{}{}\n", what, file.string(), hint);
  };
  line("plan", path_ / kPlanFile);
  line("picture", picture());
  line("trace", trace(), " (open in ui.perfetto.dev or chrome://tracing)");
  line("weights", weights());
  line("report", report());
  return text;
}

ShareFolder::ShareFolder(const fs::path& folder) {
  remove_abandoned_shares(folder);
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
