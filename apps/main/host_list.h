// The file of --hosts: which hosts have the workers of a run, a line each.
//
//   # HOST or USER@HOST, as ssh knows it; a host may be named again for a second worker
//   node1
//   ada@node2  device=cuda:0
//   ada@node2  device=cuda:1  kerf=/opt/kerf/bin/kerf  keys=kerf-keys
//
// Plain values and pure functions, but for those that read the file.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kerf::apps {

struct RemoteHost {
  std::string host = {};    // for ssh
  std::string device = {};  // what follows is empty where the line leaves it to the run
  std::string kerf = {};    // the executable over there
  std::string keys = {};    // a folder over there
  std::string where = {};   // "hosts.txt:3", for errors
};

// Throws Error{kUsage} that names `origin` and the line.
std::vector<RemoteHost> parse_hosts(std::string_view text, const std::string& origin);
// Throws as well where there is no such file, or one of no hosts.
std::vector<RemoteHost> read_hosts(const std::filesystem::path& file);
// The first `least` of its lines, and as many as `more` behind those. Throws as well where it has
// fewer than `least`.
std::vector<RemoteHost> read_hosts(const std::filesystem::path& file, int least, int more);

// One word for the shell over there, whatever is in it.
std::string quoted(const std::string& word);

}  // namespace kerf::apps
