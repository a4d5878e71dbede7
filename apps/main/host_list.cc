#include "apps/main/host_list.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "apps/main/device_list.h"
#include "runtime/error.h"
#include "runtime/file.h"

namespace kerf::apps {

namespace {

constexpr size_t kMostBytes = size_t{1} << 20;

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::kUsage, what, where);
}

// What ssh would take for a flag is none of its hosts.
bool is_host(const std::string& word) {
  const auto is_shown = [](unsigned char letter) { return std::isgraph(letter) != 0; };
  return word[0] != '-' && std::ranges::all_of(word, is_shown) &&
         word.find('=') == std::string::npos;
}

void take_setting(RemoteHost& host, const std::string& word) {
  const size_t sign = word.find('=');
  const std::string key = word.substr(0, sign);
  std::string* const place = key == "device" ? &host.device
                             : key == "kerf" ? &host.kerf
                             : key == "keys" ? &host.keys
                                             : nullptr;
  if (sign == std::string::npos || place == nullptr)
    refuse(host.where, format("\"{}\" is none of device=DEVICE, kerf=PATH and keys=DIR", word));
  if (!place->empty()) refuse(host.where, format("{} is said twice", key));
  *place = word.substr(sign + 1);
  if (place->empty()) refuse(host.where, format("{} has no value", word));
  if (key == "device" && !names_devices(*place))
    refuse(host.where, format("\"{}\" is no device; write cpu or cuda:N", *place));
}

}  // namespace

std::vector<RemoteHost> parse_hosts(std::string_view text, const std::string& origin) {
  std::vector<RemoteHost> hosts;
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = format("{}:{}", origin, ++number);
    std::istringstream words(line.substr(0, line.find('#')));
    RemoteHost host{.where = where};
    if (!(words >> host.host)) continue;
    if (!is_host(host.host))
      refuse(where, format("\"{}\" is no host; a line begins with HOST or USER@HOST", host.host));
    for (std::string word; words >> word;) take_setting(host, word);
    hosts.push_back(std::move(host));
  }
  return hosts;
}

std::vector<RemoteHost> read_hosts(const std::filesystem::path& file) {
  std::vector<RemoteHost> hosts = parse_hosts(runtime::read_file(file, kMostBytes), file.string());
  if (hosts.empty()) refuse(file.string(), "it names no host; write one on a line");
  return hosts;
}

std::vector<RemoteHost> read_hosts(const std::filesystem::path& file, int least, int more) {
  std::vector<RemoteHost> hosts = read_hosts(file);
  const auto lines = static_cast<int>(hosts.size());
  if (lines < least)
    refuse(file.string(), format("it has {} and the run needs {}; a host may be named on several",
                                 plural(lines, "line"), least));
  hosts.resize(static_cast<size_t>(std::min(lines, least + more)));
  return hosts;
}

std::string quoted(const std::string& word) {
  const auto is_plain = [](unsigned char letter) {
    return std::isalnum(letter) != 0 ||
           std::string_view("-_./:=@,+").find(static_cast<char>(letter)) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return word;
  std::string text = "'";
  for (const char letter : word)
    text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

}  // namespace kerf::apps
