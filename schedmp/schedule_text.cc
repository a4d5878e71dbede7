// The text of a schedule: written, and read back by one strict parser.
#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "runtime/error.h"
#include "schedmp/schedule.h"

namespace kerf::schedmp {

namespace {

constexpr int kMaxWorkers = 1 << 16;
constexpr int kMaxMicroBatches = 1 << 20;

// One line of text, read word by word; errors name the place.
class Line {
 public:
  Line(std::string_view text, const std::string& origin, int number)
      : text_(text.substr(0, text.find('#'))), origin_(origin), number_(number) {
    skip_spaces();
  }

  bool done() const { return at_ >= text_.size(); }

  std::string_view word(const char* what) {
    const size_t start = at_;
    while (at_ < text_.size() && text_[at_] != ' ' && text_[at_] != '\t' && text_[at_] != '\r')
      ++at_;
    if (at_ == start) fail(start, kerf::format("{} expected", what));
    last_ = start;
    std::string_view found = text_.substr(start, at_ - start);
    skip_spaces();
    return found;
  }

  void keyword(std::string_view wanted) {
    if (word(std::string(wanted).c_str()) != wanted)
      fail(last_, kerf::format("'{}' expected", wanted));
  }

  int number(const char* what, int least, int most) {
    return to_number(word(what), what, least, most);
  }

  int to_number(std::string_view digits, const char* what, int least, int most) {
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < least ||
        value > most)
      fail(last_,
           kerf::format("{} must be a number from {} to {}, not '{}'", what, least, most, digits));
    return value;
  }

  void end() {
    if (!done()) fail(at_, kerf::format("nothing more expected, found '{}'", text_.substr(at_)));
  }

  [[noreturn]] void fail(const std::string& message) { fail(last_, message); }
  [[noreturn]] void fail(size_t column, const std::string& message) {
    throw Error(ErrorCode::kUsage, message, kerf::format("{}:{}:{}", origin_, number_, column + 1));
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }

  std::string_view text_;
  const std::string& origin_;
  int number_;
  size_t at_ = 0;
  size_t last_ = 0;
};

bool reads_weights(ActionKind kind) {
  return kind == ActionKind::kForward || kind == ActionKind::kInputGradient ||
         kind == ActionKind::kBackward || kind == ActionKind::kRecompute;
}

std::optional<ActionKind> find_kind(std::string_view name) {
  for (int kind = 0; kind <= static_cast<int>(ActionKind::kReload); ++kind)
    if (to_string(static_cast<ActionKind>(kind)) == name) return static_cast<ActionKind>(kind);
  return std::nullopt;
}

// Of an endless schedule micro-batches count from a period's first, and those of later ones stand
// beside them.
Action parse_action(Line& line, std::string_view word, const Schedule& schedule, bool endless) {
  const size_t letters = word.find_first_not_of("0123456789");
  if (letters == 0 || letters == std::string_view::npos)
    line.fail(kerf::format("'{}' is no action (STAGE KIND MICRO-BATCH, like 2F0)", word));
  Action action;
  action.stage = line.to_number(word.substr(0, letters), "stage", 0, schedule.stages() - 1);
  std::string_view rest = word.substr(letters);
  if (const size_t version = rest.find('@'); version != std::string_view::npos) {
    action.version = line.to_number(rest.substr(version + 1), "version", -kMaxMicroBatches, 0);
    rest = rest.substr(0, version);
  }
  const size_t digits = rest.find_first_of("0123456789");
  const auto kind = find_kind(rest.substr(0, digits));
  if (!kind) line.fail(kerf::format("'{}' has no kind among F I W B U ...", word));
  action.kind = *kind;
  if (action.version != Action::kUnsaid && !reads_weights(*kind))
    line.fail(kerf::format("'{}' reads no weights, and names a version of them", word));
  if (digits != std::string_view::npos)
    action.micro_batch =
        line.to_number(rest.substr(digits), "micro-batch", 0,
                       endless ? kMaxMicroBatches - 1 : schedule.micro_batches - 1);
  else if (endless || !is_of_updates(*kind))
    line.fail(kerf::format("'{}' must name a micro-batch", word));
  return action;
}

std::vector<int> parse_workers(Line& line, std::string_view list, const Schedule& schedule) {
  std::vector<int> group;
  while (true) {
    const size_t comma = list.find(',');
    group.push_back(line.to_number(list.substr(0, comma), "worker", 0, schedule.workers() - 1));
    if (comma == std::string_view::npos) break;
    list = list.substr(comma + 1);
  }
  if (std::set<int>(group.begin(), group.end()).size() != group.size())
    line.fail("a worker stands twice in a group");
  return group;
}

// The parser's state: header lines come in this order, then stages, replicas and rows.
class Parser {
 public:
  void line(Line line) {
    if (line.done()) return;
    const std::string_view key = line.word("keyword");
    if (count_ == 0) {
      if (key != "kerf-schedule") line.fail("a schedule begins with 'kerf-schedule 1'");
      line.number("version", 1, 1);
    } else if (count_ == 1) {
      expect(line, key, "name");
      schedule_.name = std::string(line.word("name"));
    } else if (count_ == 2) {
      expect(line, key, "workers");
      schedule_.rows.resize(static_cast<size_t>(line.number("workers", 1, kMaxWorkers)));
    } else if (count_ == 3) {
      expect(line, key, "micro-batches");
      schedule_.micro_batches = line.number("micro-batches", 1, kMaxMicroBatches);
    } else if (key == "stage") {
      take_stage(line);
    } else if (key == "replica") {
      take_replica(line);
    } else {
      take_row(line, key);
    }
    line.end();
    ++count_;
  }

  Schedule finish(const std::string& origin) {
    if (count_ < 4) throw Error(ErrorCode::kUsage, "the header is not complete", origin);
    if (stages_.empty()) throw Error(ErrorCode::kUsage, "there is no stage", origin);
    settle();
    for (int replica = 1; replica < schedule_.replicas; ++replica)
      if (!replicas_seen_.contains(replica))
        throw Error(ErrorCode::kUsage,
                    kerf::format("'replica {}: MICRO-BATCHES' is missing", replica), origin);
    const bool endless = schedule_.endless();
    const bool drains = std::any_of(seen_.begin(), seen_.end(),
                                    [](const auto& each) { return each.first == "epilogue"; });
    if (endless && !drains) schedule_.epilogue = last_period(schedule_);
    for (const std::string_view section : sections(endless, drains))
      for (int worker = 0; worker < schedule_.workers(); ++worker)
        if (!seen_.contains({std::string(section), worker}))
          throw Error(ErrorCode::kUsage, kerf::format("{} {} is missing", section, worker), origin);
    return std::move(schedule_);
  }

 private:
  static void expect(Line& line, std::string_view key, std::string_view wanted) {
    if (key != wanted) line.fail(kerf::format("'{}' expected, not '{}'", wanted, key));
  }
  static std::vector<std::string_view> sections(bool endless, bool drains = true) {
    if (!endless) return {"row"};
    if (!drains) return {"prologue", "steady"};
    return {"prologue", "steady", "epilogue"};
  }

  void take_stage(Line& line) {
    if (!schedule_.groups.empty()) line.fail("stages come before replicas and rows");
    const int stage = line.number("stage", 0, kMaxWorkers);
    if (stage != std::ssize(stages_)) line.fail(kerf::format("stage {} expected", stages_.size()));
    line.keyword("on");
    std::vector<std::vector<int>> groups = {parse_workers(line, line.word("worker"), schedule_)};
    while (!line.done()) {
      line.keyword("and");
      groups.push_back(parse_workers(line, line.word("worker"), schedule_));
    }
    if (!stages_.empty() && stages_[0].size() != groups.size())
      line.fail(
          kerf::format("stage 0 has {} replica(s), this one {}", stages_[0].size(), groups.size()));
    check_size(line, std::ssize(groups));
    stages_.push_back(std::move(groups));
  }

  // A short text can ask for thousands of replicas, each with a place for every micro-batch.
  void check_size(Line& line, int64_t replicas) const {
    const int64_t places = replicas * (std::ssize(stages_) + 1) * schedule_.micro_batches;
    if (replicas > 1 && (replicas > schedule_.workers() || places > kMostUnfolded))
      line.fail(kerf::format("{} replicas for {} micro-batches on {} workers are too many",
                             replicas, schedule_.micro_batches, schedule_.workers()));
  }

  // Once every stage is there.
  void settle() {
    if (!schedule_.groups.empty()) return;
    schedule_.replicas = static_cast<int>(stages_[0].size());
    for (size_t replica = 0; replica < stages_[0].size(); ++replica)
      for (const auto& groups : stages_) schedule_.groups.push_back(groups[replica]);
    if (schedule_.replicas > 1)
      schedule_.replica_of.resize(static_cast<size_t>(schedule_.micro_batches));
  }

  int head(Line& line, const char* what, int least, int most) {
    if (stages_.empty()) line.fail("'stage 0 on WORKER' expected");
    settle();
    std::string_view word = line.word(what);
    if (word.back() != ':') line.fail(kerf::format("a {} and ':' expected", what));
    return line.to_number(word.substr(0, word.size() - 1), what, least, most);
  }

  void take_replica(Line& line) {
    if (!stages_.empty() && stages_[0].size() == 1) line.fail("no stage has a replica");
    const int replica = head(line, "replica", 1, static_cast<int>(stages_[0].size()) - 1);
    if (!seen_.empty()) line.fail("replicas come before rows");
    if (!replicas_seen_.insert(replica).second)
      line.fail(kerf::format("replica {} stands twice", replica));
    while (!line.done()) {
      const int micro_batch = line.number("micro-batch", 0, schedule_.micro_batches - 1);
      int& taken = schedule_.replica_of[static_cast<size_t>(micro_batch)];
      if (taken != 0)
        line.fail(kerf::format("micro-batch {} is replica {}'s already", micro_batch, taken));
      taken = replica;
    }
  }

  void take_row(Line& line, std::string_view key) {
    const std::vector<std::string_view> endless = sections(true);
    const bool is_endless = std::find(endless.begin(), endless.end(), key) != endless.end();
    if (!is_endless) expect(line, key, "row");
    if (!seen_.empty() && is_endless == schedule_.prologue.empty())
      line.fail("a schedule has rows, or prologue, steady and epilogue");
    const int worker = head(line, "worker", 0, schedule_.workers() - 1);
    if (is_endless && schedule_.replicas > 1) line.fail("an endless schedule has no replicas");
    if (is_endless && seen_.empty())
      for (auto* section : {&schedule_.prologue, &schedule_.epilogue})
        section->resize(schedule_.rows.size());
    if (!seen_.emplace(std::string(key), worker).second)
      line.fail(kerf::format("{} {} stands twice", key, worker));
    auto& section = key == "prologue"   ? schedule_.prologue
                    : key == "epilogue" ? schedule_.epilogue
                                        : schedule_.rows;
    while (!line.done()) {
      if (++actions_ > kMostActions)
        line.fail(kerf::format("a schedule has at most {} actions", kMostActions));
      section[static_cast<size_t>(worker)].push_back(
          parse_action(line, line.word("action"), schedule_, is_endless));
    }
  }

  Schedule schedule_;
  std::vector<std::vector<std::vector<int>>> stages_;  // by stage, by replica: workers
  std::set<int> replicas_seen_;
  std::set<std::pair<std::string, int>> seen_;  // sections of workers
  int count_ = 0;
  int64_t actions_ = 0;
};

std::string row_text(const char* section, size_t worker, const std::vector<Action>& row) {
  std::string text = kerf::format("{} {}:", section, worker);
  for (const Action& action : row) text += " " + to_string(action);
  return text + "\n";
}

std::string group_text(const Schedule& schedule, int stage) {
  std::string text = kerf::format("stage {} on ", stage);
  for (int replica = 0; replica < schedule.replicas; ++replica)
    text += kerf::format(
        "{}{}", replica == 0 ? "" : " and ",
        fmt::join(schedule.groups[static_cast<size_t>(replica * schedule.stages() + stage)], ","));
  return text + "\n";
}

std::string replica_text(const Schedule& schedule, int replica) {
  std::string text = kerf::format("replica {}:", replica);
  for (int mb = 0; mb < schedule.micro_batches; ++mb)
    if (schedule.replica(mb) == replica) text += kerf::format(" {}", mb);
  return text + "\n";
}

}  // namespace

std::string write_schedule(const Schedule& schedule) {
  std::string text = kerf::format("kerf-schedule 1\nname {}\nworkers {}\nmicro-batches {}\n",
                                  schedule.name, schedule.workers(), schedule.micro_batches);
  for (int stage = 0; stage < schedule.stages(); ++stage) text += group_text(schedule, stage);
  for (int replica = 1; replica < schedule.replicas; ++replica)
    text += replica_text(schedule, replica);
  for (size_t worker = 0; worker < schedule.rows.size(); ++worker) {
    if (schedule.endless()) text += row_text("prologue", worker, schedule.prologue[worker]);
    text += row_text(schedule.endless() ? "steady" : "row", worker, schedule.rows[worker]);
    if (schedule.endless()) text += row_text("epilogue", worker, schedule.epilogue[worker]);
  }
  return text;
}

Schedule parse_schedule(const std::string& text, const std::string& origin) {
  Parser parser;
  int number = 1;
  for (size_t start = 0; start <= text.size(); ++number) {
    const size_t end = std::min(text.find('\n', start), text.size());
    parser.line(Line(std::string_view(text).substr(start, end - start), origin, number));
    start = end + 1;
  }
  return parser.finish(origin);
}

}  // namespace kerf::schedmp
