// Who moves an endpoint's packets: a compute thread that waits in the endpoint does so itself;
// while it computes, a data thread does (MPI calls this asynchronous progress).
//
//   compute thread   | waits: drives |    computes     | waits: drives | computes ...
//   data thread      | sleeps        | .. | drives     | sleeps        | .. | drives
//                                      ^ the compute thread has not called for kAway
//
// A compute thread that waits is woken by the packet itself: nothing is handed over, and the data
// thread, which does not listen then, stays asleep. Who calls again within kAway finds all as it
// was left, and nobody was woken for that but by a timer, now and then. Who comes back later and
// must wait has the data thread step aside; that takes until the packet at hand is in its slot, and
// no longer. What waits for a device is looked after every kDevicePatience by either.
//
// The lock guards the links, their events and the sockets, so any thread that has it may use those.
// Packets are taken, and payload is sent, only by the one who drives; he copies it without the
// lock, so that the compute thread acquires, commits and releases meanwhile. Between packets that
// need no copy he lets go of it for whoever wants it. What a compute thread commits that calls
// often it sends at once; for one that computes in between the data thread does.
//
// Owned by a LinkEndpoint. Threads: lock(), enter() and serve() are the compute thread's.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>

#include "runtime/link/data_thread.h"
#include "runtime/link/packet_socket.h"
#include "runtime/time.h"

namespace kerf::runtime {

class ProgressEngine {
 public:
  using Lock = PacketSocket::Lock;

  // What there is to move. Called with the lock, by whoever drives.
  class Traffic : public PayloadPlaces {
   public:
    virtual void handle(const Packet& packet) = 0;
    // Passes on what the device is done with; whether that is all.
    virtual bool pass_on() = 0;
    // Asks after what has been under way since before this.
    virtual void probe(Clock::time_point before) = 0;
  };

  // Both outlive the engine. `copies`: packets bring what must be copied into slots; where they
  // bring headers only, nothing is won by taking them early, and a thread that woke for each would
  // take the processor from the two that are at work: then the data thread looks for what a device
  // is done with, and now and then for who asks.
  ProgressEngine(PacketSocket& socket, Traffic& traffic, bool copies)
      : socket_(socket), traffic_(traffic), copies_(copies) {}
  // Ends the data thread while all that it uses is there.
  ~ProgressEngine();
  ProgressEngine(const ProgressEngine&) = delete;
  ProgressEngine& operator=(const ProgressEngine&) = delete;

  // Begins the data thread; until then everything moves in serve() only. Throws
  // Error{kUnavailable}.
  void start();
  Lock lock() const;
  // The lock; throws what the data thread has failed by, for good.
  Lock enter();
  // Handles what comes until `done` (true) or the deadline (false). Throws Error{kInterrupted}, and
  // as enter().
  bool serve(Lock& lock, const std::function<bool()>& done, Deadline deadline);
  // There is something that waits for the device.
  void await_device(const Lock& lock);
  // There may be something that its connection has not taken yet. Whoever calls often gives it what
  // it takes himself; for whoever computes in between the data thread does.
  void send_on(Lock& lock);

 private:
  class Driving;
  void check_failure() const;
  bool pass_on();
  // Asks for the round after which the compute thread need not have come back.
  void leave();
  void send_soon();
  void round();
  void move(Lock& lock);
  // The compute thread was here just now, or is.
  void look_later();
  void give_way(Lock& lock);
  void probe();

  PacketSocket& socket_;
  Traffic& traffic_;
  const bool copies_;
  mutable std::atomic<int> wanted_{0};  // calls that wait for the lock
  mutable std::mutex mutex_;            // guards the links, the sockets and all below
  bool compute_drives_ = false;         // or is about to: the data thread is to step aside
  bool data_drives_ = false;
  bool awaits_device_ = false;             // as pass_on() found, or came since
  std::condition_variable stepped_aside_;  // data_drives_ has ended
  Clock::time_point visited_{};            // when the compute thread was here last
  bool calls_often_ = false;               // it had been here just before that
  bool sends_soon_ = false;                // the data thread, as was asked for by a timer
  Clock::duration next_look_{};            // how long after that the data thread looks
  Clock::time_point probed_{};
  std::exception_ptr failure_;  // of the data thread, which does nothing from then on
  std::optional<DataThread> thread_;
};

}  // namespace kerf::runtime
