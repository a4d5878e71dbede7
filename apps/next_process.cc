#include "apps/next_process.h"

#include <algorithm>
#include <string_view>

#include "runtime/error.h"
#include "runtime/format.h"
#include "runtime/handed_text.h"
#include "runtime/json.h"

namespace kerf::apps {

namespace {

constexpr size_t kMostText = 1 << 24;  // bytes

// "--name=value", in one word, since a value may begin as a flag does; or "--name".
std::string word_of(const std::string& name, const std::string& value) {
  return value.empty() ? name : format("{}={}", name, value);
}

void add_word(std::string_view word, NextFlags& flags) {
  if (!word.starts_with("--"))
    throw Error(ErrorCode::kUsage,
                format("a process of a run gives it to the next, which goes on; \"{}\" is no flag "
                       "that it gives",
                       word),
                kGoesOnFlag);
  const size_t end = std::min(word.find('='), word.size());
  flags[std::string(word.substr(0, end))] = word.substr(std::min(end + 1, word.size()));
}

}  // namespace

NextWords next_words(int argc, const char* const* argv, const NextFlags& flags) {
  const char* const* const end = argv + argc;
  const char* const* const mark = std::find(argv, end, std::string_view(kGoesOnFlag));
  NextFlags all;
  for (const char* const* word = mark; word != end; ++word)
    if (word != mark) add_word(*word, all);
  all.erase(kReturningFlag);
  for (const auto& [name, value] : flags) all[name] = value;
  NextWords words{static_cast<int>(mark - argv), {kGoesOnFlag}};
  for (const auto& [name, value] : all) words.more.push_back(word_of(name, value));
  return words;
}

// By host, which has many workers.
runtime::OpenFile hand_returning(const std::vector<runtime::Returning>& returning) {
  Json hosts = Json::object();
  for (const runtime::Returning& each : returning)
    hosts[each.origin.host].push_back({{"worker", each.worker}, {"process", each.origin.process}});
  return runtime::hand_text(json_text(hosts));
}

std::vector<runtime::Returning> take_returning(int number) {
  std::vector<runtime::Returning> all;
  try {
    const Json hosts = parse_json(runtime::take_handed_text(number, kMostText), kReturningFlag);
    for (const auto& [host, workers] : hosts.items())
      for (const Json& each : json_array(hosts, host, kReturningFlag))
        all.push_back({{host, static_cast<int>(json_int(each, "process", kReturningFlag))},
                       static_cast<int>(json_int(each, "worker", kReturningFlag))});
  } catch (const Error& error) {
    if (!error.where().empty()) throw;
    throw Error(error.code(), error.message(), kReturningFlag);
  }
  return all;
}

}  // namespace kerf::apps
