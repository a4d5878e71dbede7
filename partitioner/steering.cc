#include "partitioner/steering.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>

#include "ops/name_pattern.h"
#include "partitioner/fitted_text.h"
#include "partitioner/model.h"
#include "partitioner/plan.h"
#include "partitioner/plan_members.h"
#include "partitioner/search_effort.h"
#include "runtime/format.h"

namespace kerf::partitioner {

namespace {

constexpr std::string_view kWhole = "whole";
constexpr std::string_view kBlockCyclic = "block-cyclic:";
constexpr int64_t kMostBlock = int64_t{1} << 31;
constexpr size_t kMostRules = 10'000;
constexpr size_t kNamesShown = 3;
constexpr size_t kLettersCompared = 256;  // of what fits no name

template <class Number>
std::optional<Number> whole_number_in(std::string_view text) {
  Number number{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool padded = text.starts_with('-') || (text.size() > 1 && text.front() == '0');
  if (fault != std::errc() || end != text.data() + text.size() || padded) return std::nullopt;
  return number;
}

void check_way(const std::string& way) {
  if (way == "batch" || way == "feature" || worker_of_whole(way) >= 0) return;
  throw Error(ErrorCode::kUsage,
              format("there is no way \"{}\" to divide an operator; the ways are batch, feature, "
                     "whole and whole:WORKER",
                     elided(way, kLettersTold)));
}

// Levenshtein's distance, without the pattern's stars.
size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t corner = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = corner + (a[i] == b[j] ? 0 : 1);
      corner = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::vector<std::string> nearest_names(const Model& model, std::string pattern) {
  std::erase(pattern, '*');
  pattern.resize(std::min(pattern.size(), kLettersCompared));
  std::vector<std::pair<size_t, NodeId>> found;
  for (NodeId node = 0; node < model.nodes(); ++node) {
    const std::string& name = model.node(node).name;
    found.emplace_back(edits_between(pattern, name), node);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(kNamesShown, found.size()); ++i)
    names.push_back(model.node(found[i].second).name);
  return names;
}

std::vector<std::string> read_list(const Json& json, size_t least, const std::string& where) {
  if (!json.is_array() || json.size() < least || json.size() > kMostRules)
    refuse_member(where, format("wants a list of {} texts or more", least));
  std::vector<std::string> list;
  for (const Json& one : json) {
    if (!one.is_string() || one.get<std::string>().empty())
      refuse_member(where, format("{} is no text", json_text(one)));
    list.push_back(one.get<std::string>());
  }
  return list;
}

const Json& rules_of(const Json& json, const char* key, const std::string& where) {
  const Json& rules = json_array(json, key, where);
  if (rules.size() > kMostRules)
    refuse_member(where, format("\"{}\" has more than {} entries", key, kMostRules));
  return rules;
}

}  // namespace

WayRule parse_way(const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0)
    throw Error(ErrorCode::kUsage,
                format("\"{}\" is no PATTERN=WAY, as in conv*=batch", elided(text, kLettersTold)));
  WayRule rule{text.substr(0, equals), text.substr(equals + 1)};
  check_way(rule.way);
  return rule;
}

int worker_of_whole(const std::string& way) {
  if (way == kWhole) return 0;
  if (!way.starts_with(kWhole) || way[kWhole.size()] != ':') return -1;
  const auto worker = whole_number_in<int>(std::string_view(way).substr(kWhole.size() + 1));
  return worker && *worker < kMostWorkers ? *worker : -1;
}

std::vector<std::string> parse_patterns(const std::string& text) {
  std::vector<std::string> patterns;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    patterns.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  const bool blank = std::find(patterns.begin(), patterns.end(), "") != patterns.end();
  if (blank || patterns.size() < 2)
    throw Error(ErrorCode::kUsage,
                format("\"{}\" is no list of two patterns or more with commas, as in a,b",
                       elided(text, kLettersTold)));
  return patterns;
}

int64_t block_of(const std::string& pattern) {
  if (!pattern.starts_with(kBlockCyclic)) return 0;
  const auto units =
      whole_number_in<int64_t>(std::string_view(pattern).substr(kBlockCyclic.size()));
  return units && *units <= kMostBlock ? *units : 0;
}

std::string block_cyclic(int64_t units) { return format("{}{}", kBlockCyclic, units); }

std::string parse_pattern(const std::string& text) {
  if (text == "even" || text == "proportional" || block_of(text) > 0) return text;
  throw Error(ErrorCode::kUsage,
              format("there is no pattern \"{}\"; the patterns are even, block-cyclic:UNITS (at "
                     "least 1) and proportional",
                     elided(text, kLettersTold)));
}

std::vector<PlaceRule> read_places(const std::string& text, const std::string& origin) {
  std::vector<PlaceRule> rules;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::string where = format("{}:{}", origin, number);
    const auto fail = [&](const std::string& why) { throw Error(ErrorCode::kUsage, why, where); };
    std::istringstream words(line.substr(0, line.find('#')));
    std::string pattern;
    std::string worker;
    std::string more;
    if (!(words >> pattern)) continue;
    if (!(words >> worker) || words >> more)
      fail("a line wants a pattern and a worker, as in \"encoder* 0\"");
    const auto parsed = whole_number_in<int>(worker);
    if (!parsed || *parsed >= kMostWorkers)
      fail(format("\"{}\" is no number of a worker, within 0 and {}", elided(worker, kLettersTold),
                  kMostWorkers - 1));
    if (rules.size() == kMostRules) fail(format("there are more than {} lines", kMostRules));
    rules.push_back({pattern, *parsed, where});
  }
  if (rules.empty())
    throw Error(ErrorCode::kUsage, "it places nothing; write lines of a pattern and a worker",
                origin);
  return rules;
}

Json steering_json(const Steering& steering) {
  Json json = Json::object();
  if (!steering.pattern.empty()) json["pattern"] = steering.pattern;
  for (const WayRule& rule : steering.ways)
    json["ways"].push_back({{"nodes", rule.pattern}, {"way", rule.way}});
  if (!steering.others.empty()) json["others"] = steering.others;
  for (const PlaceRule& rule : steering.places)
    json["places"].push_back({{"nodes", rule.pattern}, {"worker", rule.worker}});
  for (const auto& patterns : steering.together) json["together"].push_back(patterns);
  for (const auto& patterns : steering.apart) json["apart"].push_back(patterns);
  if (steering.stages_per_worker != 1) json["stages_per_worker"] = steering.stages_per_worker;
  if (steering.slack != 0) json["slack"] = steering.slack;
  if (steering.automatic) json["automatic"] = true;
  if (steering.without_pairs) json["without_pairs"] = true;
  if (steering.by_shares) json["by_shares"] = true;
  return json;
}

namespace {

std::string read_way(const Json& from, const char* key, const std::string& where) {
  std::string way = json_string(from, key, where);
  try {
    check_way(way);
  } catch (const Error& error) {
    refuse_member(where, error.message());
  }
  return way;
}

int read_count(const Json& json, const char* key, int least, int most, const std::string& where) {
  const int count = json_small(json, key, least, where);
  if (count > most) refuse_member(where, format("\"{}\" is {}, but at most {}", key, count, most));
  return count;
}

std::vector<WayRule> read_ways(const Json& json, const std::string& where) {
  std::vector<WayRule> ways;
  if (!json.contains("ways")) return ways;
  for (const Json& one : rules_of(json, "ways", where)) {
    check_members(one, {"nodes", "way"}, where + ".ways");
    ways.push_back(
        {json_string(one, "nodes", where + ".ways"), read_way(one, "way", where + ".ways")});
  }
  return ways;
}

std::vector<PlaceRule> read_place_rules(const Json& json, const std::string& where) {
  std::vector<PlaceRule> places;
  if (!json.contains("places")) return places;
  for (const Json& one : rules_of(json, "places", where)) {
    check_members(one, {"nodes", "worker"}, where + ".places");
    places.push_back({json_string(one, "nodes", where + ".places"),
                      read_count(one, "worker", 0, kMostWorkers - 1, where + ".places")});
  }
  return places;
}

std::vector<std::vector<std::string>> read_lists(const Json& json, const char* key,
                                                 const std::string& where) {
  std::vector<std::vector<std::string>> lists;
  if (!json.contains(key)) return lists;
  for (const Json& one : rules_of(json, key, where))
    lists.push_back(read_list(one, 2, format("{}.{}", where, key)));
  return lists;
}

}  // namespace

Steering read_steering(const Json& json, const std::string& where) {
  check_members(json,
                {"pattern", "ways", "others", "places", "together", "apart", "stages_per_worker",
                 "slack", "automatic", "without_pairs", "by_shares"},
                where);
  Steering steering;
  if (json.contains("pattern"))
    steering.pattern = parsed(parse_pattern, json_string(json, "pattern", where), where);
  if (json.contains("others")) steering.others = read_way(json, "others", where);
  steering.ways = read_ways(json, where);
  steering.places = read_place_rules(json, where);
  steering.together = read_lists(json, "together", where);
  steering.apart = read_lists(json, "apart", where);
  if (json.contains("stages_per_worker"))
    steering.stages_per_worker = read_count(json, "stages_per_worker", 1, kMostParts, where);
  if (json.contains("slack")) steering.slack = json_finite(json, "slack", where);
  if (steering.slack < 0 || steering.slack > kMostSlack)
    refuse_member(where, format("\"slack\" is not within 0 and {}", kMostSlack));
  const auto says = [&](const char* key) {
    return json.contains(key) && json_bool(json, key, where);
  };
  steering.automatic = says("automatic");
  steering.without_pairs = says("without_pairs");
  steering.by_shares = says("by_shares");
  return steering;
}

std::vector<int> nodes_that_fit(const Model& model, const std::string& pattern,
                                const std::string& flag) {
  std::vector<int> nodes;
  for (NodeId node = 0; node < model.nodes(); ++node)
    if (ops::fits_pattern(model.node(node).name, pattern)) nodes.push_back(node);
  if (nodes.empty())
    throw Error(
        ErrorCode::kUsage,
        format("no operator of {} fits \"{}\"; the nearest names are {}", model.name(),
               elided(pattern, kLettersTold), fmt::join(nearest_names(model, pattern), ", ")),
        flag);
  return nodes;
}

std::vector<std::pair<int, int>> nodes_together(const Model& model, const Steering& steering) {
  std::vector<std::pair<int, int>> edges;
  for (const std::vector<std::string>& patterns : steering.together) {
    int first = -1;
    for (const std::string& pattern : patterns)
      for (const int node : nodes_that_fit(model, pattern, "--together")) {
        if (first < 0) first = node;
        edges.emplace_back(first, node);
        edges.emplace_back(node, first);
      }
  }
  return edges;
}

}  // namespace kerf::partitioner
