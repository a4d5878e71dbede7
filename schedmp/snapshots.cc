#include "schedmp/snapshots.h"

#include <system_error>

#include "runtime/error.h"
#include "runtime/file.h"
#include "schedmp/snapshot_part.h"

namespace kerf::schedmp {

namespace {

constexpr const char* kManifest = "snapshot.json";
constexpr int kVersion = 1;

std::string round_name(int64_t round) { return kerf::format("round-{}", round); }

std::string part_name(size_t worker) { return kerf::format("worker-{}", worker); }

Json json_of(const SnapshotPart& part) {
  return {{"bytes", part.bytes}, {"crc32c", part.checksum}};
}

SnapshotPart part_of(const Json& parts, const std::string& name, const std::string& where) {
  const Json& part = json_at(parts, name, where);
  return {json_int(part, "bytes", where), static_cast<uint32_t>(json_int(part, "crc32c", where))};
}

std::string restore_request(const PlacedPart& placed) {
  return request_of(WorkerRequest::kRestore, runtime::encode(placed));
}

Json json_of(const RunTold& run) {
  Json told = Json::object();
  for (const auto& [name, value] : run) told[name] = value;
  return told;
}

}  // namespace

Snapshots::Snapshots(SnapshotOptions options, EncodedProgram& program, runtime::Crew& crew,
                     const std::vector<std::string>& jobs)
    : options_(std::move(options)), program_(program), crew_(crew) {
  std::string all;
  for (const std::string& job : jobs) all += kerf::format("{} {}", job.size(), job);
  job_ = runtime::crc32c(all);
  if (options_.folder.empty()) return;
  options_.folder = std::filesystem::absolute(options_.folder);
  expect_folder();
  static_cast<void>(program_.snapshot());  // who keeps none says so before the run, not within
}

void Snapshots::expect_folder() const {
  const std::string folder = options_.folder.string();
  std::error_code failed;
  std::filesystem::create_directories(options_.folder, failed);
  if (failed)
    throw Error(ErrorCode::kUnavailable,
                kerf::format("it cannot become a folder for snapshots: {}", failed.message()),
                folder);
  const bool own = !options_.resume.empty() &&
                   std::filesystem::equivalent(options_.folder, options_.resume, failed);
  if (!own && std::filesystem::exists(options_.folder / kManifest))
    throw Error(ErrorCode::kUsage,
                "it has a snapshot of another run: go on with that, or take another folder",
                folder);
}

bool Snapshots::is_due(int64_t next_round) const {
  if (options_.folder.empty() || next_round <= last_round_) return false;
  const auto since = std::chrono::duration<double>(runtime::Clock::now() - last_).count();
  return (options_.every_rounds > 0 && next_round % options_.every_rounds == 0) ||
         (options_.every_seconds > 0 && since >= options_.every_seconds);
}

std::vector<std::string> Snapshots::ask(const std::vector<std::string>& requests) {
  for (size_t worker = 0; worker < requests.size(); ++worker)
    crew_.send(static_cast<int>(worker), {requests[worker]});
  std::vector<std::string> answers(requests.size());
  for (size_t missing = requests.size(); missing > 0;) {
    const auto batch = crew_.next(runtime::after(std::chrono::seconds(1)));
    if (!batch) continue;
    answers[static_cast<size_t>(batch->worker)] = batch->results.at(0);
    --missing;
  }
  return answers;
}

void Snapshots::take(int64_t next_round) {
  const std::string name = round_name(next_round);
  const std::filesystem::path folder = options_.folder / name;
  std::filesystem::create_directories(folder);
  std::vector<std::string> requests;
  for (size_t worker = 0; worker < crew_.workers().size(); ++worker)
    requests.push_back(request_of(WorkerRequest::kSnapshot, (folder / part_name(worker)).string()));
  Json parts{{"scheduler", json_of(write_part(folder / "scheduler", program_.snapshot()))}};
  const std::vector<std::string> answers = ask(requests);
  std::vector<std::string> restore;
  for (size_t worker = 0; worker < answers.size(); ++worker) {
    const auto part = runtime::decode<SnapshotPart>(answers[worker]);
    parts[part_name(worker)] = json_of(part);
    restore.push_back(restore_request({(folder / part_name(worker)).string(), part}));
  }
  const Json manifest{{"kerf_snapshot", kVersion},
                      {"program", program_.name()},
                      {"round", next_round},
                      {"workers", answers.size()},
                      {"job", job_},
                      {"run", json_of(options_.run)},
                      {"parts", parts}};
  runtime::write_file_atomic(options_.folder / kManifest, json_text(manifest, 2) + "\n");
  // The one before, of which nobody knows any more. What cannot be removed is left.
  std::error_code ignored;
  if (!last_name_.empty() && last_name_ != name)
    std::filesystem::remove_all(options_.folder / last_name_, ignored);
  restore_requests_ = std::move(restore);
  last_name_ = name;
  last_round_ = next_round;
  last_ = runtime::Clock::now();
}

void Snapshots::expect_this_run(const Json& manifest, const std::string& where) const {
  const auto refuse_unless = [&](bool fine, const std::string& what) {
    if (!fine) throw Error(ErrorCode::kUsage, what, where);
  };
  refuse_unless(json_int(manifest, "kerf_snapshot", where) == kVersion,
                "it is of another version of Kerf");
  const std::string program = json_string(manifest, "program", where);
  refuse_unless(program == program_.name(),
                kerf::format("it is of the program {}, not {}", program, program_.name()));
  const size_t workers = crew_.workers().size();
  const int64_t count = json_int(manifest, "workers", where);
  refuse_unless(count == static_cast<int64_t>(workers),
                kerf::format("it is of {} workers, and this run has {}", count, workers));
  const Json& run = json_at(manifest, "run", where);
  refuse_unless(run.is_object() && run.size() == options_.run.size(),
                "it tells its run by other names");
  for (const auto& [name, value] : options_.run) {
    const std::string other = json_string(run, name, where);
    refuse_unless(other == value,
                  kerf::format("its run had {} {}, and this one has {}", name, other, value));
  }
  refuse_unless(json_int(manifest, "job", where) == job_,
                "its workers were told something else: other data, or other flags");
}

int64_t Snapshots::resume() {
  if (options_.resume.empty()) return 0;
  const std::filesystem::path folder = std::filesystem::absolute(options_.resume);
  const std::string where = (folder / kManifest).string();
  const Json manifest = parse_json(runtime::read_file(where), where);
  expect_this_run(manifest, where);
  const int64_t round = json_int(manifest, "round", where);
  if (round < 1) throw Error(ErrorCode::kUsage, "its round is not above 0", where);

  const Json& parts = json_at(manifest, "parts", where);
  const std::filesystem::path from = folder / round_name(round);
  restore_requests_.clear();
  for (size_t worker = 0; worker < crew_.workers().size(); ++worker) {
    const std::string name = part_name(worker);
    restore_requests_.push_back(
        restore_request({(from / name).string(), part_of(parts, name, where)}));
  }
  restore_from({(from / "scheduler").string(), part_of(parts, "scheduler", where)}, program_);
  ask(restore_requests_);
  last_round_ = round;
  if (options_.folder == folder) last_name_ = round_name(round);
  return round;
}

}  // namespace kerf::schedmp
