#include "schedmp/torch_csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

#include "runtime/error.h"

namespace kerf::schedmp {

namespace {

constexpr int kMostStages = 1 << 16;
constexpr int kMostMicroBatches = 1 << 20;
constexpr std::string_view kOverlap = "OVERLAP_F_B";

constexpr std::array<std::string_view, 14> kNames = {"F",           "I",
                                                     "W",           "B",
                                                     "SEND_F",      "RECV_F",
                                                     "SEND_B",      "RECV_B",
                                                     "WAIT_SEND_F", "WAIT_SEND_B",
                                                     "UNSHARD",     "RESHARD",
                                                     "REDUCE_GRAD", "WAIT_REDUCE_GRAD"};

bool is_of_step(TorchKind kind) {
  return kind == TorchKind::kUnshard || kind == TorchKind::kReshard ||
         kind == TorchKind::kReduceGradient || kind == TorchKind::kWaitReduceGradient;
}

// One line, cell by cell.
class Reader {
 public:
  Reader(std::string_view line, const std::string& origin, int number)
      : line_(line), origin_(origin), number_(number) {}

  std::vector<TorchCell> row(int64_t& actions) {
    std::vector<TorchCell> cells;
    do {
      cells.push_back(cell());
      actions += 1 + std::ssize(cells.back());
      if (actions > kMostUnfolded)
        fail(kerf::format("a schedule has at most {} actions", kMostUnfolded));
    } while (take(','));
    if (at_ < line_.size()) fail("a comma or the line's end expected");
    return cells;
  }

 private:
  TorchCell cell() {
    if (at_ == line_.size() || line_[at_] == ',') return {};
    if (!take('(')) return {action()};
    TorchCell overlapping;
    do overlapping.push_back(action());
    while (take(';'));
    if (!take(')')) fail("';' or ')' expected");
    if (line_.substr(at_, kOverlap.size()) != kOverlap) fail(kerf::format("{} expected", kOverlap));
    at_ += kOverlap.size();
    if (overlapping.size() < 2) fail("overlapping actions are two or more");
    return overlapping;
  }

  TorchAction action() {
    TorchAction action;
    action.stage = number("a stage's number", kMostStages).value_or(-1);
    if (action.stage < 0) fail("an action expected, STAGE KIND MICRO-BATCH, like 2F0");
    action.kind = kind();
    const auto micro_batch = number("a micro-batch's number", kMostMicroBatches);
    if (micro_batch.has_value() == is_of_step(action.kind))
      fail(kerf::format("{} {} a micro-batch", kNames[static_cast<size_t>(action.kind)],
                        is_of_step(action.kind) ? "must not name" : "must name"));
    action.micro_batch = micro_batch.value_or(-1);
    return action;
  }

  TorchKind kind() {
    size_t end = at_;
    while (end < line_.size() && ((line_[end] >= 'A' && line_[end] <= 'Z') || line_[end] == '_'))
      ++end;
    const std::string_view name = line_.substr(at_, end - at_);
    const auto found = std::find(kNames.begin(), kNames.end(), name);
    if (found == kNames.end())
      fail(kerf::format("a kind expected, one of {}", fmt::join(kNames, " ")));
    at_ = end;
    return static_cast<TorchKind>(found - kNames.begin());
  }

  std::optional<int> number(const char* what, int most) {
    int value = 0;
    const char* const begin = line_.data() + at_;
    const char* const stop = line_.data() + line_.size();
    if (begin == stop || *begin < '0' || *begin > '9') return std::nullopt;
    const auto [end, fault] = std::from_chars(begin, stop, value);
    const bool padded = *begin == '0' && end != begin + 1;
    if (fault != std::errc() || value >= most || padded)
      fail(kerf::format("{} must be within 0 and {}, without leading zeros", what, most - 1));
    at_ += static_cast<size_t>(end - begin);
    return value;
  }

  bool take(char letter) {
    if (at_ == line_.size() || line_[at_] != letter) return false;
    ++at_;
    return true;
  }

  [[noreturn]] void fail(const std::string& message) const {
    throw Error(ErrorCode::kUsage, message, kerf::format("{}:{}:{}", origin_, number_, at_ + 1));
  }

  std::string_view line_;
  const std::string& origin_;
  int number_;
  size_t at_ = 0;
};

std::optional<ActionKind> computed(TorchKind kind) {
  switch (kind) {
    case TorchKind::kForward:
      return ActionKind::kForward;
    case TorchKind::kInputGradient:
      return ActionKind::kInputGradient;
    case TorchKind::kWeightGradient:
      return ActionKind::kWeightGradient;
    case TorchKind::kBackward:
      return ActionKind::kBackward;
    default:
      return std::nullopt;
  }
}

std::optional<ActionKind> transferred(TorchKind kind) {
  switch (kind) {
    case TorchKind::kSendForward:
      return ActionKind::kSendForward;
    case TorchKind::kReceiveForward:
      return ActionKind::kReceiveForward;
    case TorchKind::kSendBackward:
      return ActionKind::kSendGradient;
    case TorchKind::kReceiveBackward:
      return ActionKind::kReceiveGradient;
    case TorchKind::kWaitSendForward:
      return ActionKind::kAwaitSentForward;
    case TorchKind::kWaitSendBackward:
      return ActionKind::kAwaitSentGradient;
    default:
      return std::nullopt;
  }
}

std::optional<TorchKind> said(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return TorchKind::kForward;
    case ActionKind::kInputGradient:
      return TorchKind::kInputGradient;
    case ActionKind::kWeightGradient:
      return TorchKind::kWeightGradient;
    case ActionKind::kBackward:
      return TorchKind::kBackward;
    case ActionKind::kReduceGradient:
      return TorchKind::kReduceGradient;
    default:
      return std::nullopt;
  }
}

// Which rank has which stage, as far as it computes.
std::vector<std::vector<int>> groups_in(const TorchCsv& csv, const std::string& origin) {
  std::map<int, int> ranks;  // by stage
  for (size_t rank = 0; rank < csv.rows.size(); ++rank)
    for (const TorchCell& cell : csv.rows[rank])
      for (const TorchAction& action : cell) {
        if (!computed(action.kind)) continue;
        const auto [found, fresh] = ranks.emplace(action.stage, static_cast<int>(rank));
        if (!fresh && found->second != static_cast<int>(rank))
          throw Error(ErrorCode::kUsage,
                      kerf::format("stage {} is on rank {}, and on rank {} by {}", action.stage,
                                   found->second, rank, to_string(action)),
                      origin);
      }
  std::vector<std::vector<int>> groups;
  for (const auto& [stage, rank] : ranks) {
    if (stage != static_cast<int>(groups.size()))
      throw Error(ErrorCode::kUsage, kerf::format("no rank has stage {}", groups.size()), origin);
    groups.push_back({rank});
  }
  if (groups.empty()) throw Error(ErrorCode::kUsage, "there is no stage", origin);
  for (size_t rank = 0; rank < csv.rows.size(); ++rank)
    if (std::ranges::find(groups, std::vector<int>{static_cast<int>(rank)}) == groups.end())
      throw Error(ErrorCode::kUsage, kerf::format("rank {} computes nothing", rank), origin);
  return groups;
}

}  // namespace

std::string to_string(const TorchAction& action) {
  return kerf::format("{}{}{}", action.stage, kNames[static_cast<size_t>(action.kind)],
                      action.micro_batch < 0 ? "" : std::to_string(action.micro_batch));
}

std::string write_torch_csv(const TorchCsv& csv) {
  std::string text;
  for (const std::vector<TorchCell>& row : csv.rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) text += ',';
      if (row[i].size() > 1) text += '(';
      for (size_t each = 0; each < row[i].size(); ++each)
        text += (each > 0 ? ";" : "") + to_string(row[i][each]);
      if (row[i].size() > 1) text += kerf::format("){}", kOverlap);
    }
    text += csv.line_end;
  }
  if (!csv.ends_last_line) text.resize(text.size() - csv.line_end.size());
  return text;
}

TorchCsv parse_torch_csv(const std::string& text, const std::string& origin) {
  TorchCsv csv;
  if (text.find("\r\n") != std::string::npos) csv.line_end = "\r\n";
  int64_t actions = 0;
  int number = 1;
  for (size_t start = 0; start < text.size(); ++number) {
    const size_t end = std::min(text.find(csv.line_end, start), text.size());
    const auto line = std::string_view(text).substr(start, end - start);
    csv.rows.push_back(Reader(line, origin, number).row(actions));
    start = end + csv.line_end.size();
  }
  if (csv.rows.empty()) throw Error(ErrorCode::kUsage, "there is no line", origin);
  csv.ends_last_line = text.ends_with(csv.line_end);
  return csv;
}

// Whether the gradients of each stage's weights go up by micro-batch.
static bool weights_ascend(const Schedule& schedule) {
  std::vector<int> last(static_cast<size_t>(schedule.stages()), -1);
  for (const std::vector<Action>& row : schedule.rows)
    for (const Action& action : row)
      if (action.kind == ActionKind::kWeightGradient || action.kind == ActionKind::kBackward)
        if (std::exchange(last[static_cast<size_t>(action.stage)], action.micro_batch) >
            action.micro_batch)
          return false;
  return true;
}

Schedule schedule_of(const TorchCsv& csv, const std::string& name, const std::string& origin) {
  Schedule schedule{name, 0, groups_in(csv, origin), {}};
  for (const std::vector<TorchCell>& row : csv.rows) {
    std::vector<Action>& actions = schedule.rows.emplace_back();
    for (const TorchCell& cell : row)
      for (const TorchAction& action : cell)
        if (const auto kind = computed(action.kind)) {
          actions.push_back({action.stage, *kind, action.micro_batch});
          schedule.micro_batches = std::max(schedule.micro_batches, action.micro_batch + 1);
        }
  }
  schedule.any_weight_order = !weights_ascend(schedule);
  if (schedule.trains())
    for (int stage = schedule.stages() - 1; stage >= 0; --stage)
      schedule.rows[static_cast<size_t>(schedule.groups[static_cast<size_t>(stage)][0])].push_back(
          {stage, ActionKind::kUpdate});
  return schedule;
}

bool has_transfers(const TorchCsv& csv) {
  for (const std::vector<TorchCell>& row : csv.rows)
    for (const TorchCell& cell : row)
      for (const TorchAction& action : cell)
        if (transferred(action.kind)) return true;
  return false;
}

Schedule with_transfers(const TorchCsv& csv, const Schedule& computed_only) {
  Schedule schedule = computed_only;
  schedule.transfers = true;
  for (size_t rank = 0; rank < csv.rows.size(); ++rank) {
    std::vector<Action>& row = schedule.rows[rank];
    row.clear();
    for (const TorchCell& cell : csv.rows[rank])
      for (const TorchAction& action : cell) {
        auto kind = computed(action.kind);
        if (!kind) kind = transferred(action.kind);
        if (kind) row.push_back({action.stage, *kind, action.micro_batch});
      }
    for (const Action& action : computed_only.rows[rank])
      if (action.kind == ActionKind::kUpdate) row.push_back(action);
  }
  return schedule;
}

TorchCsv torch_csv_of(const Schedule& schedule) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::kUsage,
                kerf::format("PyTorch's form cannot say {} of schedule {}", what, schedule.name));
  };
  if (schedule.replicas > 1) refuse("the replicas");
  if (schedule.endless()) refuse("that periods go on");
  for (int stage = 0; stage < schedule.stages(); ++stage)
    if (schedule.groups[static_cast<size_t>(stage)].size() != 1)
      refuse(kerf::format("that stage {} has several workers", stage));
  TorchCsv csv;
  for (size_t worker = 0; worker < schedule.rows.size(); ++worker) {
    std::vector<TorchCell>& row = csv.rows.emplace_back();
    for (const Action& action : schedule.rows[worker]) {
      if (action.kind == ActionKind::kUpdate && action.micro_batch < 0) continue;
      const auto kind = said(action.kind);
      const bool early = is_of_updates(action.kind) && action.micro_batch >= 0;
      if (!kind || early || action.version != Action::kUnsaid)
        refuse(kerf::format("{} of worker {}", to_string(action), worker));
      row.push_back({{action.stage, *kind, action.micro_batch}});
    }
  }
  return csv;
}

bool looks_like_torch_csv(const std::string& text) {
  const size_t first = text.find_first_not_of(",\r\n");
  return first != std::string::npos &&
         ((text[first] >= '0' && text[first] <= '9') || text[first] == '(');
}

}  // namespace kerf::schedmp
