// Who touched which bytes, and what happened before: the books of the device "async-test".
//
// A lane is whatever does one thing after another: a stream, or a thread of the host. A Clock says
// for each lane how many of its operations have happened (a vector clock: Mattern, "Virtual Time
// and Global States of Distributed Systems", 1989). A History keeps the accesses to one allocation
// that a later access may still conflict with, as FastTrack does (Flanagan and Freund, 2009).
//
// Plain values, owned by AsyncOrder under its lock.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace kerf::tests {

using Lane = size_t;

class Clock {
 public:
  uint64_t time(Lane lane) const { return lane < times_.size() ? times_[lane] : 0; }
  // The lane's next operation; the first is 1.
  uint64_t tick(Lane lane);
  void join(const Clock& other);
  bool includes(const Clock& other) const;

 private:
  std::vector<uint64_t> times_;
};

// Bytes [begin, end) of an allocation, touched by an operation of a lane.
struct Access {
  Lane lane = 0;
  uint64_t time = 0;
  size_t begin = 0;
  size_t end = 0;
  bool written = false;

  auto operator<=>(const Access&) const = default;
  bool is_in(const Clock& clock) const { return clock.time(lane) >= time; }
};

class History {
 public:
  explicit History(size_t bytes);

  // Returns the earlier accesses that `access` conflicts with: they have a byte in common, one of
  // both writes, and the earlier one is not in `seen`, the clock of the later.
  //
  // At a byte, an access is forgotten once a later one came after it (has it in its clock) which
  // conflicts with all that it would: any write, or a read if the earlier is a read. Whatever is
  // not ordered after the forgotten one is not ordered after the later one either, so each byte
  // with a conflict keeps one.
  std::vector<Access> add(const Access& access, const Clock& seen);
  // Those that are not in `seen`, of the ones kept.
  std::vector<Access> outside(const Clock& seen) const;
  size_t kept() const;

 private:
  struct Segment {
    size_t end = 0;
    std::vector<Access> accesses;
  };
  using Segments = std::map<size_t, Segment>;  // by their first byte; all bytes, none twice

  Segments::iterator split(size_t at);

  Segments segments_;
};

}  // namespace kerf::tests
