// The roster: who joined a run, who waits for a place in it, and what each said. The scheduler's
// half of the protocol in control.h.
//
// Places of workers that connect go to whoever comes first; behind a loss those that come again, or
// whose keepers (keeper.h) start others, get the places that they had, and others what is left when
// they had time to.
//
// Owned by the crew, whose mutex guards it.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/failure_detector.h"
#include "runtime/messages.h"
#include "runtime/spares.h"
#include "runtime/store_thread.h"

namespace kerf::runtime {

// In which who was in the last epoch comes again: a process begins anew within some tenths.
inline constexpr auto kComeAgain = std::chrono::seconds(3);

class Roster {
 public:
  // Members with a process are watched through the server from now on. Who comes is noted in
  // `came`, which outlives the roster: as many as there may be. Places of `returning` are theirs
  // for a while.
  Roster(const CrewOptions& options, ControlServer& server, std::vector<Member> members,
         std::set<Origin>& came, std::vector<Returning> returning = {});

  // Workers have the files of the run by this, which outlives the roster.
  void use_store(StoreThread& store) { store_ = &store; }
  // Takes in what a peer said. A peer that breaks the protocol fails; nothing is thrown.
  void handle(const ControlServer::Incoming& incoming);
  // Notes which processes have ended.
  void look_at_processes();
  // Gives places that are nobody's to who waits for one, and refuses whom there is no room for.
  void look_at_spares();
  // The time of this process stood still by `by`: nobody is older for it.
  void forgive(Clock::duration by);
  // From now on nobody may join, and members may leave.
  void close() { closed_ = true; }
  // Likewise; whoever comes is told to stop, as all that are here are.
  void finish() { closed_ = finished_ = true; }
  // Who waits for a place, as peers of the server.
  std::vector<int> spares() const { return spares_.peers(); }
  // Who may come back to the next epoch: all but those that were silent then, or lost their device.
  std::vector<Returning> returning(Clock::time_point now) const;

  std::vector<Member>& members() { return members_; }
  const std::vector<Member>& members() const { return members_; }
  std::optional<CrewResults> next_results();
  bool has_results() const { return !results_.empty(); }
  bool all(Member::State least) const;
  int joined() const;

 private:
  void handle_message(Member& member, const ControlServer::Incoming& incoming);
  void expect_acknowledgements(const Member& member) const;
  void take_report(Member& member, const std::string& payload);
  void take_addresses(Member& member, const ControlServer::Incoming& incoming);
  void take_results(Member& member, const std::string& payload);
  void take_farewell(Member& member, const std::string& payload);
  void admit(int peer, const std::string& payload);
  std::string objection(const Registration& registration) const;
  std::string no_place_for(const Registration& registration) const;
  std::string no_place_yet(const Registration& registration, int& room) const;
  bool is_being_lost(const Member& member) const;
  std::optional<int> place_for(const Registration& registration) const;
  bool is_reserved(int worker) const;
  bool has_died(const Member& member, const Registration& registration) const;
  void note_who_came(const Registration& registration);
  bool is_absent(int worker) const;  // and there is such a place
  bool is_full() const;
  void welcome(int worker, int peer, const Registration& registration);
  void refuse(int peer, const std::string& why);

  const CrewOptions& options_;
  ControlServer& server_;
  std::vector<Member> members_;
  std::map<int, int> by_peer_;  // peer of the server -> worker
  Spares spares_;
  std::vector<Returning> returning_;
  Clock::time_point reserved_until_;
  std::deque<CrewResults> results_;
  bool closed_ = false;
  bool finished_ = false;
  std::set<Origin>& came_;
  StoreThread* store_ = nullptr;  // null: the crew started its workers itself
};

}  // namespace kerf::runtime
