// kerf checkpoint: what a run can go on from, and whether it is whole.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "apps/kerf/commands.h"
#include "apps/kerf/save_flags.h"
#include "apps/main/answer.h"
#include "apps/main/flag_values.h"
#include "apps/programs.h"
#include "apps/report/table.h"
#include "apps/report/terminal.h"
#include "runtime/error.h"
#include "runtime/json.h"
#include "schedmp/checkpoint_folder.h"
#include "schedmp/folder_lock.h"
#include "schedmp/training/stored_slices.h"
#include "schedmp/training/training.h"

namespace kerf::apps {

namespace {

namespace fs = std::filesystem;

constexpr int kLooks = 20;  // at most, at a folder that a run goes on writing

// One of them, and what is wrong with it as far as was looked. Without a manifest it is not yet
// one, or no longer, or what a killed run left.
struct Listed {
  fs::path path;
  int64_t number = 0;
  bool finished = false;
  std::optional<schedmp::Checkpoint> manifest;
  std::vector<std::string> faults;

  bool is_whole() const { return finished && faults.empty(); }
};

struct CheckpointCommand {
  std::string folder = "kerf-run";
  bool verify = false;
  bool prune = false;
  int64_t keep = kKeptCheckpoints;
  std::string out;
  bool json = false;

  int run() const;

 private:
  bool remove_old(const fs::path& from) const;
  Listed look_at(const schedmp::NumberedFolder& numbered) const;
  std::vector<Listed> list(const fs::path& from) const;
  std::vector<Listed> expect_some(const fs::path& from) const;
  fs::path export_newest(const std::vector<Listed>& all, const fs::path& from) const;
};

// Those that are not whole stay beside the `keep` newest that are. What is unfinished nobody else
// writes, as the folder is locked. Whether there was anything.
bool CheckpointCommand::remove_old(const fs::path& from) const {
  const auto lock = schedmp::expect_lock(from);
  const std::vector<schedmp::NumberedFolder> before = schedmp::checkpoints_in(from);
  std::vector<fs::path> unfinished;
  int64_t whole = 0;
  int64_t all = 0;
  for (const auto& [number, path] : before)
    if (!schedmp::has_manifest(path)) {
      unfinished.push_back(path);
    } else if (whole < keep) {
      ++all;
      if (schedmp::faults_of(path).empty()) ++whole;
    }
  schedmp::prune(from, all);
  std::erase_if(unfinished, [](const fs::path& path) {
    std::error_code unknown;
    return fs::status(path, unknown).type() != fs::file_type::not_found;
  });
  if (!unfinished.empty())
    tell_notes({format("{} removed from {}",
                       plural(std::ssize(unfinished), "unfinished checkpoint"), from.string())});
  return !before.empty();
}

// Without --verify, manifests alone are read.
Listed CheckpointCommand::look_at(const schedmp::NumberedFolder& numbered) const {
  Listed one{numbered.path, numbered.number, false, {}, {}};
  const bool finished = schedmp::has_manifest(one.path);
  if (verify) one.faults = schedmp::faults_of(one.path);
  try {
    one.manifest = schedmp::read_manifest(one.path);
  } catch (const Error& error) {
    if (!verify) one.faults.emplace_back(error.what());
  }
  one.finished = finished && schedmp::has_manifest(one.path);  // before and behind the look
  if (!one.finished) one.faults.clear();
  return one;
}

// Runs write and remove meanwhile: the newest may be finished behind the look at it, and so the
// others go before theirs.
std::vector<Listed> CheckpointCommand::list(const fs::path& from) const {
  const auto is_finished_by_now = [](const Listed& each) {
    return !each.finished && (schedmp::has_manifest(each.path) || !fs::exists(each.path));
  };
  std::vector<Listed> all;
  for (int look = 0; look < kLooks; ++look) {
    all.clear();
    for (const auto& each : schedmp::checkpoints_in(from)) all.push_back(look_at(each));
    if (std::ranges::any_of(all, &Listed::is_whole) ||
        std::ranges::none_of(all, is_finished_by_now))
      break;
  }
  return all;
}

std::vector<Listed> CheckpointCommand::expect_some(const fs::path& from) const {
  std::vector<Listed> all = list(from);
  if (all.empty()) throw Error(ErrorCode::kUsage, schedmp::why_none(from), from.string());
  return all;
}

// The checkpoint that they are of.
fs::path CheckpointCommand::export_newest(const std::vector<Listed>& all,
                                          const fs::path& from) const {
  const auto whole = [](const Listed& each) { return schedmp::faults_of(each.path).empty(); };
  const auto newest = std::ranges::find_if(all, whole);
  if (newest == all.end())
    throw Error(ErrorCode::kUsage, "no checkpoint in it is whole: see --verify", from.string());
  const schedmp::Checkpoint manifest = schedmp::read_manifest(newest->path);
  const auto source = manifest.run.find(schedmp::kToldModel);
  require(manifest.program == "training" && source != manifest.run.end(), "--export",
          format("{} is of the program {}, which has no model", newest->path.string(),
                 manifest.program));
  schedmp::Numbering numbering;
  if (const auto told = manifest.run.find(schedmp::kToldNumbering); told != manifest.run.end())
    numbering = schedmp::read_numbering(told->second, newest->path.string());
  runtime::LocalStore own_files;
  schedmp::StoredSlices slices(own_files, schedmp::placed_pieces(newest->path, manifest));
  schedmp::export_weights(training_factories().model(source->second), slices, out, numbering);
  return newest->path;
}

Json json_of(const std::vector<Listed>& all) {
  Json list = Json::array();
  for (const Listed& each : all) {
    Json one{{"number", each.number}, {"path", each.path.string()}, {"finished", each.finished}};
    if (each.manifest) {
      one["program"] = each.manifest->program;
      one["workers"] = each.manifest->workers;
      one["files"] = each.manifest->files();
      one["bytes"] = each.manifest->bytes();
    }
    one["faults"] = each.faults;
    list.push_back(std::move(one));
  }
  return {{"checkpoints", std::move(list)}};
}

std::string text_of(const std::vector<Listed>& all, bool colour) {
  if (all.empty()) return {};
  Table table({"checkpoint", "of", "workers", "files", "bytes"});
  std::string faults;
  for (const Listed& each : all) {
    const auto& manifest = each.manifest;
    table.add({each.path.string(),
               manifest ? manifest->program : (each.finished ? "?" : "unfinished"),
               manifest ? format("{}", manifest->workers) : "?",
               manifest ? format("{}", manifest->files()) : "?",
               manifest ? bytes_text(manifest->bytes()) : "?"});
    for (const std::string& fault : each.faults)
      faults += format("not whole: {}\n", in_line(readable(fault)));
  }
  return table.text(colour) + faults;
}

int CheckpointCommand::run() const {
  require(fs::is_directory(folder), "DIR", format("there is no folder {}", folder));
  const fs::path from = checkpoints_of(folder);
  const bool none_stays = prune && keep == 0;
  require(!verify || !none_stays, "--verify", "--keep 0 leaves nothing to look at");
  const fs::path exported = out.empty() ? fs::path() : export_newest(expect_some(from), from);
  const bool was_some = prune && remove_old(from);
  const bool may_be_none = was_some || none_stays || verify;
  const std::vector<Listed> all = may_be_none ? list(from) : expect_some(from);
  answer(
      json, [&] { return json_of(all); },
      [&](bool colour) {
        return text_of(all, colour) +
               (out.empty() ? ""
                            : format("weights  {}, of {}\n", out, exported.filename().string()));
      });
  if (!verify) return 0;
  if (std::ranges::none_of(all, &Listed::is_whole)) {
    const std::string why = all.empty() ? format("{}: {}", from.string(), schedmp::why_none(from))
                                        : format("no checkpoint in {} is whole", from.string());
    tell_notes({why + ": --resume has nothing to go on from"});
    return 1;
  }
  const auto wrong = [](const Listed& each) { return !each.faults.empty(); };
  return std::ranges::any_of(all, wrong) ? 1 : 0;
}

}  // namespace

void add_checkpoint_command(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand(
      "checkpoint", "Lists what a run can go on from, checks it, and takes weights out of it.");
  auto state = std::make_shared<CheckpointCommand>();
  command
      ->add_option("DIR", state->folder,
                   "What kerf train --out named, or a folder of checkpoints, or of a program's "
                   "snapshots")
      ->capture_default_str();
  command->add_flag(
      "--verify", state->verify,
      "Compare every byte with the sums; exit code 1 where one is damaged, or none whole");
  CLI::Option* prune = command->add_flag("--prune", state->prune, "Remove all but the newest");
  command->add_option("--keep", state->keep, "As many stay")
      ->check(whole_number<int64_t>())
      ->needs(prune)
      ->type_name("K")
      ->capture_default_str();
  command
      ->add_option("--export", state->out,
                   "Write the weights of the newest that is whole, as a run's "
                   "weights.safetensors; with --early-stop, the best so far")
      ->type_name("FILE.safetensors");
  add_json_flag(*command, state->json);
  command->footer(
      "Examples:\n"
      "  kerf checkpoint kerf-run --verify\n"
      "  kerf checkpoint kerf-run --export weights.safetensors");
  run_when_chosen(*command, chosen, state);
}

}  // namespace kerf::apps
