// The roster: who joined a run, and what each said. The scheduler's half of the protocol in
// control.h.
//
// Owned by the crew, whose mutex guards it.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/failure_detector.h"
#include "runtime/messages.h"

namespace kerf::runtime {

class Roster {
 public:
  // Members with a process are watched through the server from now on.
  Roster(const CrewOptions& options, ControlServer& server, std::vector<Member> members);

  // Takes in what a peer said. A peer that breaks the protocol fails; nothing is thrown.
  void handle(const ControlServer::Incoming& incoming);
  // Notes which processes have ended.
  void look_at_processes();
  // From now on, nobody may join.
  void close() { closed_ = true; }

  std::vector<Member>& members() { return members_; }
  const std::vector<Member>& members() const { return members_; }
  std::optional<CrewResults> next_results();
  bool has_results() const { return !results_.empty(); }
  bool all(Member::State least) const;
  int joined() const;

 private:
  void handle_message(Member& member, const ControlServer::Incoming& incoming);
  void take_report(Member& member, const std::string& payload);
  void take_addresses(Member& member, const ControlServer::Incoming& incoming);
  void take_results(Member& member, const std::string& payload);
  void take_farewell(Member& member, const std::string& payload);
  void admit(int peer, const std::string& payload);
  std::string objection(const Registration& registration) const;
  std::string no_place_for(const Registration& registration) const;
  void refuse(int peer, const std::string& why);

  const CrewOptions& options_;
  ControlServer& server_;
  std::vector<Member> members_;
  std::map<int, int> by_peer_;  // peer of the server -> worker
  std::deque<CrewResults> results_;
  bool closed_ = false;
};

}  // namespace kerf::runtime
