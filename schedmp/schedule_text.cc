// The text of a schedule: written, and read back by one strict parser.
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

std::optional<ActionKind> find_kind(std::string_view name) {
  for (int kind = 0; kind <= static_cast<int>(ActionKind::kReload); ++kind)
    if (to_string(static_cast<ActionKind>(kind)) == name) return static_cast<ActionKind>(kind);
  return std::nullopt;
}

Action parse_action(Line& line, std::string_view word, const Schedule& schedule) {
  const size_t letters = word.find_first_not_of("0123456789");
  if (letters == 0 || letters == std::string_view::npos)
    line.fail(kerf::format("'{}' is no action (STAGE KIND MICRO-BATCH, like 2F0)", word));
  Action action;
  action.stage = line.to_number(word.substr(0, letters), "stage", 0, schedule.stages() - 1);
  std::string_view rest = word.substr(letters);
  if (const size_t version = rest.find('@'); version != std::string_view::npos) {
    action.version = line.to_number(rest.substr(version + 1), "version", 0, kMaxMicroBatches);
    rest = rest.substr(0, version);
  }
  const size_t digits = rest.find_first_of("0123456789");
  const auto kind = find_kind(rest.substr(0, digits));
  if (!kind) line.fail(kerf::format("'{}' has no kind among F I W B U ...", word));
  action.kind = *kind;
  const bool of_step = *kind == ActionKind::kUpdate || *kind == ActionKind::kReduceGradient;
  if (of_step != (digits == std::string_view::npos))
    line.fail(kerf::format("'{}' {} a micro-batch", word, of_step ? "must not name" : "must name"));
  if (!of_step)
    action.micro_batch =
        line.to_number(rest.substr(digits), "micro-batch", 0, schedule.micro_batches - 1);
  return action;
}

void parse_group(Line& line, Schedule& schedule) {
  const int stage = line.number("stage", 0, kMaxWorkers);
  if (stage != schedule.stages()) line.fail(kerf::format("stage {} expected", schedule.stages()));
  line.keyword("on");
  std::string_view list = line.word("worker");
  std::vector<int> group;
  while (true) {
    const size_t comma = list.find(',');
    group.push_back(line.to_number(list.substr(0, comma), "worker", 0, schedule.workers() - 1));
    if (comma == std::string_view::npos) break;
    list = list.substr(comma + 1);
  }
  if (std::set<int>(group.begin(), group.end()).size() != group.size())
    line.fail("a worker stands twice in a group");
  schedule.groups.push_back(std::move(group));
}

void parse_row(Line& line, Schedule& schedule, std::vector<bool>& seen, int64_t& actions) {
  std::string_view word = line.word("worker");
  if (word.empty() || word.back() != ':') line.fail("'row WORKER:' expected");
  const int worker =
      line.to_number(word.substr(0, word.size() - 1), "worker", 0, schedule.workers() - 1);
  if (seen[static_cast<size_t>(worker)]) line.fail(kerf::format("row {} stands twice", worker));
  seen[static_cast<size_t>(worker)] = true;
  while (!line.done()) {
    if (++actions > kMostActions)
      line.fail(kerf::format("a schedule has at most {} actions", kMostActions));
    schedule.rows[static_cast<size_t>(worker)].push_back(
        parse_action(line, line.word("action"), schedule));
  }
}

// The parser's state: header lines come in this order, then stages and rows.
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
      seen_.resize(schedule_.rows.size());
    } else if (count_ == 3) {
      expect(line, key, "micro-batches");
      schedule_.micro_batches = line.number("micro-batches", 1, kMaxMicroBatches);
    } else if (key == "stage") {
      parse_group(line, schedule_);
    } else {
      expect(line, key, "row");
      parse_row(line, schedule_, seen_, actions_);
    }
    line.end();
    ++count_;
  }

  Schedule finish(const std::string& origin) {
    if (count_ < 4) throw Error(ErrorCode::kUsage, "the header is not complete", origin);
    if (schedule_.groups.empty()) throw Error(ErrorCode::kUsage, "there is no stage", origin);
    for (size_t worker = 0; worker < seen_.size(); ++worker)
      if (!seen_[worker])
        throw Error(ErrorCode::kUsage, kerf::format("row {} is missing", worker), origin);
    return std::move(schedule_);
  }

 private:
  static void expect(Line& line, std::string_view key, std::string_view wanted) {
    if (key != wanted) line.fail(kerf::format("'{}' expected, not '{}'", wanted, key));
  }

  Schedule schedule_;
  std::vector<bool> seen_;
  int count_ = 0;
  int64_t actions_ = 0;
};

}  // namespace

std::string write_schedule(const Schedule& schedule) {
  std::string text = kerf::format("kerf-schedule 1\nname {}\nworkers {}\nmicro-batches {}\n",
                                  schedule.name, schedule.workers(), schedule.micro_batches);
  for (int stage = 0; stage < schedule.stages(); ++stage)
    text += kerf::format("stage {} on {}\n", stage,
                         fmt::join(schedule.groups[static_cast<size_t>(stage)], ","));
  for (int worker = 0; worker < schedule.workers(); ++worker) {
    text += kerf::format("row {}:", worker);
    for (const Action& action : schedule.rows[static_cast<size_t>(worker)])
      text += " " + to_string(action);
    text += "\n";
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
