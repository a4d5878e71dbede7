#include "apps/kerf/flag_rules.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <sstream>
#include <string_view>
#include <vector>

#include "apps/kerf/plan_flags.h"
#include "apps/main/flag_values.h"

namespace kerf::apps {

namespace {

// Flags that change what the command does.
enum Modes : uint8_t {
  kGraph = 1,
  kCheck = 2,
  kStages = 4,  // --check of a file of stages
  kFront = 8,
  kAssign = 16,
  kPlan = 32,
  kFromRun = 64
};
constexpr uint8_t kEvery = 127;
constexpr uint8_t kMaking = kFromRun;  // a plan is made, by a search
constexpr uint8_t kAsking = kFront | kAssign | kFromRun;
constexpr uint8_t kSetting = kCheck | kFront | kAssign | kPlan | kFromRun;  // also of a plan made

struct Mode {
  uint8_t bit;
  std::string_view flag;
  std::string_view why;  // another flag does nothing beside it
};
constexpr Mode kModes[] = {
    {kGraph, "--format", "it is for models; a graph read with --format has no such thing"},
    {kCheck, "--check", "it would do nothing beside --check, which looks at what there is"},
    {kStages, "",
     "it would do nothing: what --check names says the stage of each operator, no more"},
    {kFront, "--front", "it would do nothing beside --front, which lists plans and keeps none"},
    {kAssign, "--assign", "it would do nothing beside --assign, whose file has the stages"},
    {kPlan, "--plan", "the plan is made already; leave the flag out"},
    {kFromRun, "--from-run", "it would do nothing beside --from-run, which plans anew"}};

struct FlagRule {
  std::string_view flag;
  std::string_view cuts;  // that heed it, as --cut names them; empty: all
  uint8_t modes;          // that it goes with
};

constexpr FlagRule kRules[] = {
    // which model
    {"MODEL", "", kEvery},
    {"--sizes", "", kEvery - kGraph},
    {"--width", "", kEvery - kGraph},
    {"--classes", "", kEvery - kGraph},
    {"--image-size", "", kEvery - kGraph},
    {"--dim", "", kEvery - kGraph},
    {"--train", "", kEvery - kGraph},
    {"--loss", "", kEvery - kGraph},
    {"--head", "", kEvery - kGraph},
    {"--bn", "", kEvery - kGraph},
    {"--freeze", "", kEvery - kGraph},
    // which cut, for which step
    {"--cut", "", kEvery - kStages},
    {"--workers", "", kEvery - kStages},
    {"--stages", "hybrid", kCheck | kPlan | kFromRun},
    {"--batch", "", kSetting},
    {"--fit-batch", "layer feature batch hybrid free", kAsking},
    {"--micro-batches", "", kSetting},
    {"--schedule", "", kSetting},
    {"--memory", "", kSetting | kGraph},
    {"--slots", "", kSetting},
    {"--transport", "", kSetting},
    {"--threads", "", kSetting},
    {"--device", "", kSetting},
    {"--optimizer", "", kSetting},
    {"--momentum", "", kSetting},
    {"--objective", "", kAsking},
    {"--profile", "", kAsking},
    // how
    {"--pairs", "feature hybrid auto", kMaking},
    {"--shares", "free auto", kMaking},
    {"--pattern", "free", kMaking},
    {"--way", "feature batch free", kMaking},
    {"--devices", "", kMaking},
    {"--place", "layer", kMaking},
    {"--together", "layer", kMaking},
    {"--apart", "layer", kMaking},
    {"--stages-per-worker", "layer", kMaking | kGraph},
    {"--slack", "layer auto", kMaking | kGraph},
    {"--certify", "layer", kAsking | kGraph},
    {"--hosts", "layer", kGraph | kFront},
    // what to do
    {"--format", "layer hybrid", kGraph | kCheck | kStages | kFront | kAssign},
    {"--check", "", kGraph | kCheck | kStages},
    {"--front", "layer", kGraph | kFront},
    {"--assign", "layer", kGraph | kAssign},
    {"--from-run", "", kFromRun},
    {"--plan", "", kPlan},
    // what to tell
    {"--graph-out", "layer", kGraph | kAssign | kFromRun},
    {"--stage-costs", "layer", kGraph | kAssign | kFromRun | kPlan},
    {"--out", "", kAssign | kFromRun | kPlan},
    {"--short", "", kAssign | kFromRun},
    {"--picture", "", kAssign | kFromRun | kPlan},
    {"--open", "", kAssign | kFromRun},
    {"--why", "", kAssign | kFromRun},
    {"--json", "", kEvery}};

// Two that contradict each other, or of which one does nothing beside the other.
struct Clash {
  std::string_view flag;
  std::string_view other;
  std::string_view why;
  std::string_view where = {};  // only beside this one, too
};

constexpr std::string_view kShares = "--shares says which worker computes what; leave one out";
constexpr std::string_view kNoProof =
    "what is proved is of layers that follow each other on workers that are alike; leave it out "
    "beside --devices, --place, --together, --apart and --stages-per-worker";
constexpr std::string_view kNoSlack =
    "it is for layers that follow each other on workers that are alike; leave it out beside "
    "--stages-per-worker";
constexpr std::string_view kGivenGraph =
    "it would do nothing beside --assign, whose file has the "
    "stages, whatever they take";

constexpr Clash kClashes[] = {
    {"--pattern", "--shares", kShares},
    {"--way", "--shares", kShares},
    {"--pattern", "--way", "--way says how operators are divided; leave one of them out"},
    {"--stages-per-worker", "--place",
     "--place says which stages a worker has; leave one of them out"},
    {"--fit-batch", "--batch", "it finds what --batch would say; leave one of them out"},
    {"--certify", "--devices", kNoProof},
    {"--certify", "--place", kNoProof},
    {"--certify", "--together", kNoProof},
    {"--certify", "--apart", kNoProof},
    {"--certify", "--stages-per-worker", kNoProof},
    {"--slack", "--stages-per-worker", kNoSlack, "--format"},
    {"--memory", "--assign", kGivenGraph, "--format"}};

bool has_word(std::string_view text, std::string_view word) {
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    if (text.substr(begin, end - begin) == word) return true;
    begin = end + 1;
  }
  return false;
}

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// "a", "a and b", "a, b and c".
std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return text;
}

const FlagRule* rule_of(std::string_view flag) {
  const auto* const at = std::ranges::find(kRules, flag, &FlagRule::flag);
  return at == std::end(kRules) ? nullptr : at;
}

// In the order of help; what it does not show has no name. Of commands that run something --hosts
// is another flag: a file.
std::vector<std::string> given_flags(const CLI::App* command) {
  std::vector<std::string> given;
  if (command == nullptr) return given;
  const bool runs = command->get_option_no_throw("--listen") != nullptr;
  for (const CLI::Option* option : command->get_options())
    if (option->count() > 0 && !option->get_name().empty() &&
        !(runs && option->get_name() == "--hosts"))
      given.push_back(option->get_name());
  return given;
}

bool is_given(const std::vector<std::string>& given, std::string_view flag) {
  return std::ranges::find(given, flag) != given.end();
}

void check_modes(const std::vector<std::string>& given, uint8_t modes) {
  for (const Mode& mode : kModes)
    for (const std::string& flag : given)
      if (const FlagRule* rule = rule_of(flag); rule != nullptr && (modes & mode.bit) != 0)
        require((rule->modes & mode.bit) != 0, flag, std::string(mode.why));
}

void check_clashes(const std::vector<std::string>& given) {
  for (const Clash& clash : kClashes)
    if (is_given(given, clash.flag) && is_given(given, clash.other) &&
        (clash.where.empty() || is_given(given, clash.where)))
      require(false, std::string(clash.flag), std::string(clash.why));
}

}  // namespace

std::string help_for(const std::string& flag, const std::string& help) {
  const FlagRule* rule = rule_of(flag);
  KERF_CHECK(rule != nullptr, "{} has no rule", flag);
  const std::vector<std::string> cuts = words_of(rule->cuts);
  if (cuts.empty()) return help;
  return cuts.size() == 1 ? format("Of a {} cut: {}", cuts[0], help)
                          : format("Of {} cuts: {}", listed(cuts), help);
}

void check_flags_together(const CLI::App* command) {
  const std::vector<std::string> given = given_flags(command);
  uint8_t modes = 0;
  for (const Mode& mode : kModes)
    if (is_given(given, mode.flag)) modes |= mode.bit;
  require(!is_given(given, "--hosts") || (modes & kGraph) != 0, "--hosts",
          "it is for graphs read with --format");
  check_modes(given, modes);
  check_clashes(given);
}

void check_flags_of_cut(const CLI::App* command, const std::string& cut) {
  for (const std::string& flag : given_flags(command)) {
    const FlagRule* rule = rule_of(flag);
    if (rule == nullptr || rule->cuts.empty()) continue;
    require(has_word(rule->cuts, cut), flag,
            format("it is for --cut {}, not for --cut {}", listed(words_of(rule->cuts)), cut));
  }
}

void check_flags_of_stages(const CLI::App* command) { check_modes(given_flags(command), kStages); }

}  // namespace kerf::apps
