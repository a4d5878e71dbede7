#include "partitioner/sums.h"

#include <algorithm>
#include <map>

#include "partitioner/homes.h"

namespace kerf::partitioner {
namespace {

using ops::Box;

// Of a plan: beyond any use, and what memory still holds.
constexpr size_t kMostRoutes = size_t{4} << 20;

// Before any is made: what they are made of would be too much by itself.
void check_routes(const Sources& sources) {
  const int values = sources.model().values();
  size_t most = 0;  // to each reader from each holder, there and back
  for (ValueId value = 0; value < values; ++value)
    most += 2 * sources.readers(value).size() * sources.shares(value).size();
  if (most <= kMostRoutes) return;
  size_t count = 0;
  for (ValueId value = 0; value < values; ++value) {
    const Role role = sources.model().value(value).role;
    if (role != Role::kActivation && role != Role::kParameter) continue;  // it has no routes
    for (const int part : sources.readers(value)) {
      if (role == Role::kParameter && !sources.has_read_copy(value, part)) continue;
      count += 2 * sources.of_value(value, part).size();
      if (count > kMostRoutes)
        throw Error(ErrorCode::kUsage,
                    format("its parts come to more than {} routes, with those of {}; give it fewer "
                           "parts",
                           kMostRoutes, sources.model().value(value).name));
    }
  }
}

// What the sums of one value have in common.
class OfValue {
 public:
  OfValue(const Sources& sources, ValueId value)
      : sources_(sources), value_(value), shape_(sources.shape(value)) {}

  std::vector<Sum> values() {
    std::vector<Sum> needed;
    for (const int part : sources_.readers(value_))
      needed.push_back({part, Sum::Kind::kNeeded, *sources_.need(value_, part),
                        sources_.of_value(value_, part)});
    std::vector<Sum> sums;
    for (const auto& [box, parts] : partial_holders()) scatter(box, parts, needed, sums);
    sums.insert(sums.end(), needed.begin(), needed.end());
    return sums;
  }

  // Of what has homes: straight to them; from a part that makes all of it as one sum.
  std::vector<Sum> gradients_at_homes() const {
    std::vector<Sum> sums;
    for (const auto& [box, parts] : holders())
      for (const int part : parts) {
        Sum sum{part, Sum::Kind::kNeeded, box, sources_.of_gradient(value_, part, box)};
        sum_of_one_maker(sum);
        sums.push_back(std::move(sum));
      }
    return sums;
  }

  std::vector<Sum> gradients() const {
    std::vector<Sum> running;
    std::vector<Sum> rest;
    for (const auto& [box, parts] : holders()) {
      std::vector<Sum> chosen;
      for (const int part : parts)
        append(running_sums(sources_, value_, part, box, Leg::kDirect), chosen);
      if (parts.size() > 1 && shape_.rank() > 0) {
        std::vector<Sum> scattered = scattered_gradient(box, parts);
        if (travels(scattered) < travels(chosen)) chosen = std::move(scattered);
      }
      for (Sum& sum : chosen) add(std::move(sum), sum.kind == Sum::Kind::kRunning ? running : rest);
    }
    running.insert(running.end(), rest.begin(), rest.end());
    return running;
  }

 private:
  using Holders = std::vector<std::pair<Box, std::vector<int>>>;  // parts of a box, ascending

  int64_t elements(const Box& box) const { return ops::local_shape(box, shape_).elements(); }

  Holders holders() const {
    return holders_that([](const ops::Share&) { return true; });
  }
  Holders partial_holders() const {
    if (ops::is_kept(sources_.model().value(value_).role)) return {};
    return holders_that([](const ops::Share& share) { return share.partial(); });
  }
  template <class Wanted>
  Holders holders_that(const Wanted& wanted) const {
    Holders holders;
    const bool kept = ops::is_kept(sources_.model().value(value_).role);
    for (const ops::Share& share : sources_.shares(value_)) {
      if (!wanted(share)) continue;
      const auto same = [&](const auto& each) {
        return each.first == share.box &&
               (kept || sources_.one_replica(each.second[0], share.part));
      };
      auto found = std::find_if(holders.begin(), holders.end(), same);
      if (found == holders.end()) found = holders.insert(holders.end(), {share.box, {}});
      found->second.push_back(share.part);
    }
    for (auto& [box, parts] : holders) std::sort(parts.begin(), parts.end());
    return holders;
  }

  // Along an axis of the value that is no batch, if one is long enough.
  std::vector<Box> slices_of(const Box& box, size_t parts) const {
    const int batch = sources_.model().value(value_).spec.shape.batch_axis();
    int axis = longest_axis(box, shape_, batch);
    if (axis < 0 || ops::local_shape(box, shape_)[axis] < static_cast<int64_t>(parts))
      axis = longest_axis(box, shape_, -1);
    return divide_evenly(box, shape_, axis, static_cast<int>(parts));
  }

  // Elements that go from one part to another: once, if several sums of a part read a piece.
  int64_t travels(const std::vector<Sum>& sums) const {
    int64_t count = 0;
    std::map<int, std::vector<const Sum*>> earlier;  // by part
    for (const Sum& sum : sums) {
      std::vector<const Sum*>& others = earlier[sum.part];
      for (const Source& term : sum.terms) {
        const auto reads_it = [&](const Sum* other) {
          return std::find(other->terms.begin(), other->terms.end(), term) != other->terms.end();
        };
        if (term.part != sum.part && std::none_of(others.begin(), others.end(), reads_it))
          count += elements(term.box);
      }
      others.push_back(&sum);
    }
    return count;
  }

  void append(std::vector<Sum>&& sums, std::vector<Sum>& to) const {
    for (Sum& sum : sums) add(std::move(sum), to);
  }
  // Sums of the same that one part makes for several others are one, as large as they need.
  void add(Sum&& sum, std::vector<Sum>& to) const {
    const auto alone = [](const Sum& each) {
      return std::all_of(each.terms.begin(), each.terms.end(),
                         [&](const Source& term) { return term.part == each.part; });
    };
    for (Sum& other : to) {
      if (sum.kind != Sum::Kind::kRunning || other.kind != sum.kind || other.part != sum.part)
        continue;
      if (other.box == sum.box && other.terms == sum.terms) return;
      if (!alone(sum) || !alone(other) || other.contributions() != sum.contributions()) continue;
      other.box = ops::normalized(ops::hull(other.box, sum.box), shape_);
      for (size_t i = 0; i < sum.terms.size(); ++i)
        other.terms[i].box =
            ops::normalized(ops::hull(other.terms[i].box, sum.terms[i].box), shape_);
      return;
    }
    to.push_back(std::move(sum));
  }

  void sum_of_one_maker(Sum& sum) const {
    if (sum.terms.empty() || sum.terms.front().part == sum.part) return;
    Source one = sum.terms.front();
    if (std::any_of(sum.terms.begin(), sum.terms.end(),
                    [&](const Source& term) { return term.part != one.part; }))
      return;
    for (const Source& term : sum.terms) one.box = ops::hull(one.box, term.box);
    one.box = ops::normalized(one.box, shape_);
    one.contributions = sum.contributions();
    sum.terms = {std::move(one)};
  }

  std::vector<Sum> scattered_gradient(const Box& box, const std::vector<int>& parts) const {
    const std::vector<Box> slices = slices_of(box, parts.size());
    std::vector<Sum> sums;
    std::vector<Source> gathered;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (slices[i].empty()) continue;
      auto own = running_sums(sources_, value_, parts[i], slices[i], Leg::kReduceScatter);
      own.back().kind = Sum::Kind::kSlice;
      if (own.back().terms.empty()) continue;
      gathered.push_back({parts[i], slices[i], own.back().contributions(), Leg::kAllGather});
      append(std::move(own), sums);
    }
    for (const int part : parts) sums.push_back({part, Sum::Kind::kNeeded, box, gathered});
    return sums;
  }

  // What `needed` lacks of a box of partial sums comes in slices that its holders sum up, if that
  // is less.
  void scatter(const Box& box, const std::vector<int>& parts, std::vector<Sum>& needed,
               std::vector<Sum>& sums) const {
    const auto of_box = [&](const Source& term) {
      return !term.contributions.empty() && box.contains(term.box);
    };
    Box read;
    std::vector<Sum> readers;
    for (const Sum& sum : needed) {
      if (!sources_.one_replica(sum.part, parts.front())) continue;
      Sum lacks{sum.part, sum.kind, sum.box, {}};
      for (const Source& term : sum.terms) {
        if (!of_box(term)) continue;
        read = readers.empty() && lacks.terms.empty() ? term.box : ops::hull(read, term.box);
        lacks.terms.push_back(term);
      }
      if (!lacks.terms.empty()) readers.push_back(std::move(lacks));
    }
    if (readers.size() < 2 || shape_.rank() == 0) return;
    const std::vector<Box> slices = slices_of(ops::normalized(read, shape_), parts.size());
    std::vector<Sum> scattered = slice_sums(slices, parts);
    std::vector<Sum> gathered = readers;
    for (Sum& sum : gathered) sum.terms = slices_read(scattered, sum.terms.front().box);
    if (travels(scattered) + travels(gathered) >= travels(readers)) return;
    for (Sum& sum : needed) {
      const auto found = std::find_if(gathered.begin(), gathered.end(),
                                      [&](const Sum& each) { return each.part == sum.part; });
      if (found == gathered.end()) continue;
      std::erase_if(sum.terms, of_box);
      sum.terms.insert(sum.terms.end(), found->terms.begin(), found->terms.end());
    }
    sums.insert(sums.end(), scattered.begin(), scattered.end());
  }

  std::vector<Sum> slice_sums(const std::vector<Box>& slices, const std::vector<int>& parts) const {
    std::vector<Sum> sums;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (slices[i].empty()) continue;
      Sum sum{parts[i], Sum::Kind::kSlice, slices[i], {}};
      for (Source& term : sources_.of_value(value_, parts[i], slices[i])) {
        term.leg = Leg::kReduceScatter;
        sum.terms.push_back(std::move(term));
      }
      sums.push_back(std::move(sum));
    }
    return sums;
  }

  std::vector<Source> slices_read(const std::vector<Sum>& slices, const Box& read) const {
    std::vector<Source> terms;
    for (const Sum& slice : slices) {
      Box box = ops::normalized(ops::intersect(slice.box, read), shape_);
      if (!box.empty()) terms.push_back({slice.part, std::move(box), {}, Leg::kAllGather});
    }
    return terms;
  }

  const Sources& sources_;
  const ValueId value_;
  const ops::Shape shape_;
};

}  // namespace

std::vector<Contribution> Sum::contributions() const {
  std::vector<Contribution> all;
  for (const Source& term : terms)
    all.insert(all.end(), term.contributions.begin(), term.contributions.end());
  return all;
}

Sums::Sums(const Sources& sources) : sources_(sources) {
  check_routes(sources);
  const Model& model = sources.model();
  values_.resize(static_cast<size_t>(model.values()));
  gradients_.resize(values_.size());
  for (ValueId value = 0; value < model.values(); ++value) {
    const Role role = model.value(value).role;
    if (role != Role::kActivation && role != Role::kParameter) continue;
    const auto at = static_cast<size_t>(value);
    OfValue own(sources, value);
    values_[at] = own.values();
    if (sources.differentiable(value))
      gradients_[at] = role == Role::kActivation ? own.gradients() : own.gradients_at_homes();
  }
}

const Sum* Sums::needed(ValueId value, bool gradient, int part) const {
  for (const Sum& sum : of(value, gradient))
    if (sum.kind == Sum::Kind::kNeeded && sum.part == part) return &sum;
  return nullptr;
}

}  // namespace kerf::partitioner
