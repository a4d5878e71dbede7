#include <algorithm>

#include "partitioner/sums.h"

namespace kerf::partitioner {
namespace {

using ops::Box;

// Summands that lie on one part until another takes them.
struct Heap {
  int part = 0;
  Box box;
  std::vector<Source> terms;
  bool merged = false;  // they leave as one sum
};

class Collecting {
 public:
  Collecting(const Sources& sources, ValueId value, int target)
      : sources_(sources), shape_(sources.shape(value)), target_(target) {}

  std::vector<Sum> run(const std::vector<Source>& all, const Box& box, Leg leg) {
    for (size_t begin = 0; begin < all.size();) {
      size_t end = begin + 1;
      while (end < all.size() && all[end].part == all[begin].part) ++end;
      add({all.begin() + static_cast<std::ptrdiff_t>(begin),
           all.begin() + static_cast<std::ptrdiff_t>(end)});
      begin = end;
    }
    Sum last{target_, Sum::Kind::kNeeded, box, {}};
    for (Heap& heap : heaps_) last.terms.push_back(leave(heap, leg));
    sums_.push_back(std::move(last));
    return std::move(sums_);
  }

 private:
  int64_t elements(const Box& box) const { return ops::local_shape(box, shape_).elements(); }

  // The part adds what it makes itself to all that was summed so far, if that can have arrived and
  // what it sends is not more than what it would send of its own.
  void add(const std::vector<Source>& run) {
    const int part = run.front().part;
    Box hull = run.front().box;
    int64_t apart = 0;
    for (const Source& source : run) {
      hull = ops::hull(hull, source.box);
      apart += elements(source.box);
    }
    if (!heaps_.empty()) hull = ops::hull(hull, hull_);
    hull = ops::normalized(hull, shape_);
    const bool alone = heaps_.empty() && run.size() == 1;
    if (alone || part == target_ || !has_all(part) || elements(hull) > apart) {
      for (const Source& source : run) lay({part, source.box, {source}});
      return;
    }
    Heap sum{part, hull, {}, true};
    for (Heap& heap : heaps_) {
      if (heap.part == part)
        sum.terms.insert(sum.terms.end(), heap.terms.begin(), heap.terms.end());
      else
        sum.terms.push_back(leave(heap, Leg::kDirect));
    }
    sum.terms.insert(sum.terms.end(), run.begin(), run.end());
    heaps_.clear();
    lay(std::move(sum));
  }

  void lay(Heap heap) {
    const int stage = sources_.stage_of(heap.part);
    const int lowest = heaps_.empty() ? stage + 1 : sources_.stage_of(lowest_part_);
    hull_ = heaps_.empty() ? heap.box : ops::hull(hull_, heap.box);
    if (stage < lowest) lowest_alone_ = true;
    if (stage == lowest && heap.part != lowest_part_) lowest_alone_ = false;
    if (stage <= lowest) lowest_part_ = heap.part;
    heaps_.push_back(std::move(heap));
  }

  // Whether all heaps lie there, or in stages that run before it in the backward pass.
  bool has_all(int part) const {
    if (heaps_.empty() || sources_.stage_of(lowest_part_) > sources_.stage_of(part)) return true;
    return lowest_part_ == part && lowest_alone_;
  }

  Source leave(Heap& heap, Leg leg) {
    if (!heap.merged) {
      Source source = heap.terms.front();
      source.leg = leg;
      return source;
    }
    Sum sum{heap.part, Sum::Kind::kRunning, heap.box, std::move(heap.terms)};
    Source source{heap.part, heap.box, sum.contributions(), leg};
    sums_.push_back(std::move(sum));
    return source;
  }

  const Sources& sources_;
  const ops::Shape shape_;
  const int target_;
  std::vector<Heap> heaps_;  // in the order in which they are added
  Box hull_;                 // of all of them
  // A part of the lowest stage that has any, and whether no other part of that stage has.
  int lowest_part_ = -1;
  bool lowest_alone_ = false;
  std::vector<Sum> sums_;
};

}  // namespace

std::vector<Sum> running_sums(const Sources& sources, ValueId value, int part, const Box& box,
                              Leg leg) {
  return Collecting(sources, value, part).run(sources.of_gradient(value, part, box), box, leg);
}

}  // namespace kerf::partitioner
