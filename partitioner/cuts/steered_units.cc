#include "partitioner/cuts/steered_units.h"

#include <algorithm>
#include <map>
#include <set>

#include "partitioner/at.h"
#include "partitioner/cut.h"
#include "partitioner/fitted_text.h"

namespace kerf::partitioner {
namespace {

constexpr size_t kMostOnTheirOwn = 12;  // units of lists that have their worker each on its own
constexpr int kMostTried = 20'000;      // units and workers, of all cases together

// Takes units in an order that respects what must come first, by number where it can.
class Taking {
 public:
  Taking(const Units& units, const std::vector<int>& worker)
      : units_(units), worker_(worker), waits_(at(units.size())) {
    const auto [begin, end] = boost::edges(units.before);
    for (auto edge = begin; edge != end; ++edge) ++waits_[boost::target(*edge, units.before)];
    for (int unit = 0; unit < units.size(); ++unit)
      if (waits_[at(unit)] == 0) ready_[worker[at(unit)]].insert(unit);
  }

  // All that worker `own` can have before another has its turn.
  std::vector<int> take(int own) {
    std::vector<int> taken;
    for (;;) {
      std::set<int>& anywhere = ready_[-1];
      std::set<int>& there = ready_[own];
      if (anywhere.empty() && there.empty()) return taken;
      const bool first = there.empty() || (!anywhere.empty() && *anywhere.begin() < *there.begin());
      std::set<int>& from = first ? anywhere : there;
      const int unit = *from.begin();
      from.erase(from.begin());
      taken.push_back(unit);
      each_after(unit, [&](int next) {
        if (--waits_[at(next)] == 0) ready_[worker_[at(next)]].insert(next);
      });
    }
  }

  // What was taken last was not taken.
  void undo(const std::vector<int>& taken) {
    for (auto unit = taken.rbegin(); unit != taken.rend(); ++unit) {
      each_after(*unit, [&](int next) {
        if (waits_[at(next)]++ == 0) ready_[worker_[at(next)]].erase(next);
      });
      ready_[worker_[at(*unit)]].insert(*unit);
    }
  }

  // Workers that have something to take.
  std::vector<int> ready() const {
    std::vector<int> workers;
    for (const auto& [worker, units] : ready_)
      if (!units.empty()) workers.push_back(worker);
    return workers;
  }

 private:
  template <class Visit>
  void each_after(int unit, const Visit& visit) const {
    const auto [begin, end] = boost::out_edges(at(unit), units_.before);
    for (auto edge = begin; edge != end; ++edge)
      visit(static_cast<int>(boost::target(*edge, units_.before)));
  }

  const Units& units_;
  const std::vector<int>& worker_;
  std::vector<int> waits_;              // by unit: for how many
  std::map<int, std::set<int>> ready_;  // by worker; -1: any
};

std::vector<int> ends_on_worker(const std::vector<int>& order, const std::vector<int>& worker,
                                int own) {
  std::vector<int> ends(order.size());
  int end = static_cast<int>(order.size());
  for (size_t p = order.size(); p-- > 0;) {
    const int of = worker[at(order[p])];
    if (of >= 0 && of != own) end = static_cast<int>(p);
    ends[p] = end;
  }
  return ends;
}

std::vector<int> ends_apart(const std::vector<int>& order, const std::vector<int>& group) {
  std::vector<int> ends(order.size());
  int end = static_cast<int>(order.size());  // the first position of another group than `first`
  int first = -1;                            // the group that comes next, and where
  int where = end;
  for (size_t p = order.size(); p-- > 0;) {
    const int own = group[at(order[p])];
    if (own >= 0) {
      if (first >= 0 && own != first) end = where;
      first = own;
      where = static_cast<int>(p);
    }
    ends[p] = end;
  }
  return ends;
}

// Gives units of lists their workers, in every way in which no worker has units of two lists.
class Parting {
 public:
  Parting(const UnitRules& rules, int workers, size_t most)
      : rules_(rules), most_(most), kept_(at(workers)), now_(rules) {
    now_.group.clear();  // who has what says it
  }

  // `pieces`: units that go to one worker. More than `most` where there are more.
  std::vector<UnitRules> cases(const std::vector<std::vector<int>>& pieces) {
    for (size_t unit = 0; unit < rules_.worker.size(); ++unit)
      if (const int own = rules_.worker[unit]; own >= 0)
        if (!rules_.add(static_cast<int>(unit), kept_[at(own)])) return {};
    place(pieces, 0);
    return std::move(found_);
  }

 private:
  void place(const std::vector<std::vector<int>>& pieces, size_t next) {
    if (next == pieces.size()) {
      found_.push_back(now_);
      return;
    }
    for (size_t worker = 0; worker < kept_.size(); ++worker) {
      if (found_.size() > most_ || ++tried_ > kMostTried) return;
      const StageRules before = kept_[worker];
      if (joins(pieces[next], worker)) place(pieces, next + 1);
      kept_[worker] = before;
    }
  }

  bool joins(const std::vector<int>& piece, size_t worker) {
    for (const int unit : piece) {
      if (!rules_.add(unit, kept_[worker])) return false;
      now_.worker[at(unit)] = static_cast<int>(worker);
    }
    return true;
  }

  const UnitRules& rules_;
  const size_t most_;
  int tried_ = 0;
  std::vector<StageRules> kept_;  // by worker: of all that it has
  UnitRules now_;
  std::vector<UnitRules> found_;
};

// Units of lists that have no worker yet, those of the same lists together.
std::vector<std::vector<int>> pieces_of_lists(const UnitRules& rules) {
  std::map<std::vector<int>, std::vector<int>> units_of;
  for (size_t unit = 0; unit < rules.worker.size(); ++unit) {
    if (rules.worker[unit] >= 0) continue;
    std::vector<int> lists;
    for (const std::vector<int>& group : rules.group) lists.push_back(group[unit]);
    if (std::any_of(lists.begin(), lists.end(), [](int list) { return list >= 0; }))
      units_of[lists].push_back(static_cast<int>(unit));
  }
  std::vector<std::vector<int>> pieces;
  for (auto& [lists, units] : units_of) pieces.push_back(std::move(units));
  return pieces;
}

}  // namespace

bool UnitRules::add(int unit, StageRules& stage) const {
  if (const int own = worker[at(unit)]; own >= 0) {
    if (stage.worker >= 0 && stage.worker != own) return false;
    stage.worker = own;
  }
  stage.lists.resize(group.size(), -1);
  for (size_t each = 0; each < group.size(); ++each) {
    const int own = group[each][at(unit)];
    int& list = stage.lists[each];
    if (own >= 0 && list >= 0 && own != list) return false;
    if (own >= 0) list = own;
  }
  return true;
}

std::vector<int> UnitRules::ends_on(int own, const std::vector<int>& order) const {
  std::vector<int> ends = ends_on_worker(order, worker, own);
  for (const std::vector<int>& lists : group) {
    const std::vector<int> apart = ends_apart(order, lists);
    for (size_t i = 0; i < ends.size(); ++i) ends[i] = std::min(ends[i], apart[i]);
  }
  return ends;
}

UnitRules steered_units(const Model& model, const PlanRequest& request, const Units& units) {
  UnitRules result;
  result.worker.assign(at(units.size()), -1);
  std::vector<int> worker_of(at(model.nodes()), -1);
  for (const PlaceRule& rule : request.steering.places) {
    if (rule.worker >= request.workers_bound())
      throw Error(
          ErrorCode::kUsage,
          format("\"{}\" is on worker {}, but they are numbered 0 to {}",
                 elided(rule.pattern, kLettersTold), rule.worker, request.workers_bound() - 1),
          rule.where());
    for (const int node : nodes_that_fit(model, rule.pattern, rule.where()))
      worker_of[at(node)] = rule.worker;
  }
  std::vector<int> placed_by(at(units.size()), -1);
  for (NodeId node = 0; node < model.nodes(); ++node) {
    if (worker_of[at(node)] < 0) continue;
    const int unit = units.unit_of[at(node)];
    int& own = result.worker[at(unit)];
    if (own >= 0 && own != worker_of[at(node)])
      throw Error(ErrorCode::kUsage,
                  format("{} is on worker {} and {} on worker {}, but they share a parameter, or "
                         "are together; place them on one worker",
                         model.node(placed_by[at(unit)]).name, own, model.node(node).name,
                         worker_of[at(node)]),
                  "--place");
    own = worker_of[at(node)];
    placed_by[at(unit)] = node;
  }
  for (const std::vector<std::string>& patterns : request.steering.apart) {
    std::vector<int>& group = result.group.emplace_back(at(units.size()), -1);
    for (size_t list = 0; list < patterns.size(); ++list)
      for (const int node : nodes_that_fit(model, patterns[list], "--apart")) {
        int& own = group[at(units.unit_of[at(node)])];
        if (own >= 0 && own != static_cast<int>(list))
          throw Error(ErrorCode::kUsage,
                      format("{} cannot be apart from all that fits \"{}\": both names fit it, or "
                             "it stays with one for a parameter that they share or by --together",
                             model.node(node).name, elided(patterns[at(own)], kLettersTold)),
                      "--apart");
        own = static_cast<int>(list);
      }
  }
  return result;
}

std::vector<UnitRules> cases_of_apart(const UnitRules& rules, int workers, size_t most) {
  const std::vector<std::vector<int>> pieces = pieces_of_lists(rules);
  std::vector<std::vector<int>> alone;
  for (const std::vector<int>& units : pieces)
    for (const int unit : units) alone.push_back({unit});
  if (alone.size() <= kMostOnTheirOwn) {
    auto cases = Parting(rules, workers, most).cases(alone);
    if (cases.size() <= most) return cases;
  }
  auto cases = Parting(rules, workers, most).cases(pieces);
  if (cases.size() > most) cases.resize(most);
  return cases;
}

std::vector<int> order_by_worker(const Units& units, const std::vector<int>& worker) {
  Taking taking(units, worker);
  std::vector<int> order = taking.take(-1);
  for (auto ready = taking.ready(); !ready.empty(); ready = taking.ready()) {
    int best = -1;  // who can take most
    std::vector<int> most;
    for (const int own : ready) {
      std::vector<int> taken = taking.take(own);
      taking.undo(taken);
      if (taken.size() <= most.size()) continue;
      best = own;
      most = std::move(taken);
    }
    taking.take(best);
    order.insert(order.end(), most.begin(), most.end());
  }
  return order;
}

std::vector<int> runs_of(const std::vector<int>& order, const std::vector<int>& worker) {
  std::vector<int> runs;
  for (const int unit : order)
    if (const int own = worker[at(unit)]; own >= 0 && (runs.empty() || runs.back() != own))
      runs.push_back(own);
  return runs;
}

}  // namespace kerf::partitioner
