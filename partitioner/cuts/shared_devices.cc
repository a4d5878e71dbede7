#include "partitioner/cuts/shared_devices.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "partitioner/at.h"
#include "partitioner/cuts/trees.h"
#include "partitioner/orders.h"

namespace kerf::partitioner {
namespace {

constexpr size_t kMostMoved = 24;     // units that one move takes along
constexpr double kEmphasis = 16;      // exponent: how much the fullest device counts
constexpr double kHottest = 0.02;     // of the mean load, what a move may cost at first
constexpr double kColdest = 0.00005;  // and at last
constexpr int kRestarts = 4;

// Loads of devices, kept up to date as units move.
class Loads {
 public:
  Loads(const Units& units, const SharedRequest& request)
      : units_(units),
        devices_(at(request.devices)),
        memory_cap_(request.memory),
        device_type_(request.device_type),
        device_(at(units.size()), -1),
        readers_(units.values.size() * devices_),
        holders_(units.held.size() * devices_),
        load_(devices_),
        memory_(devices_),
        reads_(at(units.size())),
        made_(at(units.size())),
        holds_(at(units.size())) {
    for (size_t v = 0; v < units.values.size(); ++v) {
      made_[at(units.values[v].producer)].push_back(v);
      for (const int reader : units.values[v].readers) reads_[at(reader)].push_back(v);
    }
    for (size_t h = 0; h < units.held.size(); ++h)
      for (const int unit : units.held[h].units) holds_[at(unit)].push_back(h);
  }

  // To a device, or (-1) to none.
  void move(int unit, int device) {
    const int from = device_[at(unit)];
    if (from == device) return;
    for (const auto* values : {&reads_[at(unit)], &made_[at(unit)]})
      for (const size_t value : *values) add_wire(value, -1);
    device_[at(unit)] = device;
    for (const size_t value : reads_[at(unit)]) {
      if (from >= 0) --readers_[value * devices_ + at(from)];
      if (device >= 0) ++readers_[value * devices_ + at(device)];
    }
    for (const auto* values : {&reads_[at(unit)], &made_[at(unit)]})
      for (const size_t value : *values) add_wire(value, 1);
    if (from >= 0) hold(unit, from, -1);
    if (device >= 0) hold(unit, device, 1);
  }

  int device(int unit) const { return device_[at(unit)]; }
  double largest() const { return *std::max_element(load_.begin(), load_.end()); }
  bool fits() const {
    for (size_t d = 0; d < devices_; ++d)
      if (memory_[d] > memory_cap_[d] * (1 + 1e-11)) return false;
    return true;
  }
  const std::vector<double>& memory() const { return memory_; }
  // The largest load, with some regard for the others.
  double energy() const {
    const double most = largest();
    if (most <= 0) return 0;
    double sum = 0;
    for (const double load : load_) sum += std::pow(load / most, kEmphasis);
    return most * std::pow(sum, 1 / kEmphasis);
  }

 private:
  void add_wire(size_t id, double sign) {
    const UnitValue& value = units_.values[id];
    const int from = device_[at(value.producer)];
    if (from < 0) return;
    bool leaves = false;
    for (size_t d = 0; d < devices_; ++d) {
      if (d == at(from) || readers_[id * devices_ + d] == 0) continue;
      load_[d] += sign * value.enter;
      leaves = true;
    }
    if (leaves) load_[at(from)] += sign * value.leave;
  }
  void hold(int unit, int device, int sign) {
    const size_t type = device_type_.empty() ? 0 : at(device_type_[at(device)]);
    load_[at(device)] += sign * units_.work[type][at(unit)];
    for (const size_t held : holds_[at(unit)]) {
      int& count = holders_[held * devices_ + at(device)];
      const bool changes = sign > 0 ? count == 0 : count == 1;
      count += sign;
      if (changes)
        memory_[at(device)] += sign * (units_.held[held].fixed + units_.held[held].per_micro_batch);
    }
  }

  const Units& units_;
  size_t devices_;
  const std::vector<double>& memory_cap_;
  const std::vector<int>& device_type_;
  std::vector<int> device_;   // by unit
  std::vector<int> readers_;  // by value and device
  std::vector<int> holders_;  // by what is held and device
  std::vector<double> load_, memory_;
  std::vector<std::vector<size_t>> reads_, made_, holds_;  // by unit
};

class Annealing {
 public:
  Annealing(const Units& units, const SharedRequest& request)
      : units_(units),
        stages_(request.devices * request.stages_per_device),
        loads_(units, request),
        random_(1) {}

  void start(std::vector<int> stage_of, std::vector<int> device_of) {
    stage_of_ = std::move(stage_of);
    device_of_ = std::move(device_of);
    for (int unit = 0; unit < units_.size(); ++unit)
      loads_.move(unit, device_of_[at(stage_of_[at(unit)])]);
    energy_ = loads_.energy();
    keep();
  }

  void run(int64_t moves, double mean) {
    for (int64_t i = 0; i < moves; ++i) {
      const double part = static_cast<double>(i) / static_cast<double>(moves);
      heat_ = mean * kHottest * std::pow(kColdest / kHottest, part);
      if (below(20) == 0)
        swap_devices();
      else
        move_unit();
    }
  }

  const SharedDevices& best() const { return best_; }

 private:
  int below(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }

  bool accepts() {
    const double now = loads_.energy();
    const double worse = now - energy_;
    const double chance = static_cast<double>(random_()) / static_cast<double>(random_.max());
    if (!loads_.fits() || (worse > 0 && chance >= std::exp(-worse / heat_))) return false;
    energy_ = now;
    if (loads_.largest() < best_.bottleneck * (1 - 1e-12)) keep();
    return true;
  }
  void keep() {
    if (loads_.fits()) best_ = {stage_of_, device_of_, loads_.memory(), loads_.largest()};
  }

  // What must move along, so that no edge leads to a lower stage: false if it is too much.
  bool close(int unit, int stage) {
    moved_.assign(1, {unit, stage_of_[at(unit)]});
    const bool down = stage < stage_of_[at(unit)];
    stage_of_[at(unit)] = stage;
    for (size_t i = 0; i < moved_.size(); ++i) {
      const auto reach = [&](size_t other) {
        int& its = stage_of_[other];
        if (down ? its <= stage : its >= stage) return;
        moved_.emplace_back(static_cast<int>(other), its);
        its = stage;
      };
      const size_t from = at(moved_[i].first);
      if (down) {
        const auto [begin, end] = boost::in_edges(from, units_.before);
        for (auto edge = begin; edge != end; ++edge) reach(boost::source(*edge, units_.before));
      } else {
        const auto [begin, end] = boost::out_edges(from, units_.before);
        for (auto edge = begin; edge != end; ++edge) reach(boost::target(*edge, units_.before));
      }
      if (moved_.size() > kMostMoved) return false;
    }
    return true;
  }

  void move_unit() {
    const int unit = below(units_.size());
    const int from = stage_of_[at(unit)];
    // Mostly to the next stage, before or after.
    int stage = below(4) == 0 ? below(stages_) : from + (below(2) == 0 ? 1 : -1);
    if (stage < 0 || stage >= stages_ || stage == from) return;
    const bool near = close(unit, stage);
    if (near) {
      for (const auto& [each, before] : moved_) loads_.move(each, device_of_[at(stage)]);
      if (accepts()) return;
    }
    for (const auto& [each, before] : moved_) stage_of_[at(each)] = before;
    if (near)
      for (const auto& [each, before] : moved_) loads_.move(each, device_of_[at(before)]);
  }

  void swap_devices() {
    const int a = below(stages_);
    const int b = below(stages_);
    if (device_of_[at(a)] == device_of_[at(b)]) return;
    const auto exchange = [&] {
      std::swap(device_of_[at(a)], device_of_[at(b)]);
      for (int unit = 0; unit < units_.size(); ++unit)
        if (stage_of_[at(unit)] == a || stage_of_[at(unit)] == b)
          loads_.move(unit, device_of_[at(stage_of_[at(unit)])]);
    };
    exchange();
    if (!accepts()) exchange();
  }

  const Units& units_;
  int stages_;
  Loads loads_;
  std::mt19937 random_;
  std::vector<int> stage_of_, device_of_;
  std::vector<std::pair<int, int>> moved_;  // unit, and the stage that it had
  double energy_ = 0;
  double heat_ = 0;
  SharedDevices best_{{}, {}, {}, kNever};
};

// The order of the start cut into stages of equal work.
std::vector<int> even_stages(const Units& units, const std::vector<int>& order, int stages) {
  const double total = std::accumulate(units.work[0].begin(), units.work[0].end(), 0.0);
  std::vector<int> stage_of(at(units.size()));
  if (total <= 0) return stage_of;  // no work, no shares
  double done = 0;
  for (const int unit : order) {
    const double middle = done + units.work[0][at(unit)] / 2;
    stage_of[at(unit)] = std::clamp(static_cast<int>(middle / total * stages), 0, stages - 1);
    done += units.work[0][at(unit)];
  }
  return stage_of;
}

}  // namespace

SharedDevices share_devices(const Units& units, const SharedRequest& request,
                            std::vector<int> start) {
  const int stages = request.devices * request.stages_per_device;
  const double total = std::accumulate(units.work[0].begin(), units.work[0].end(), 0.0);
  std::vector<int> order = first_order(units);
  if (start.empty()) start = even_stages(units, order, request.devices);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return start[at(a)] < start[at(b)]; });
  std::vector<int> in_turn(at(stages));
  for (int s = 0; s < stages; ++s) in_turn[at(s)] = s % request.devices;
  std::vector<int> in_blocks(at(stages));
  for (int s = 0; s < stages; ++s) in_blocks[at(s)] = s / request.stages_per_device;
  SharedDevices best;
  {
    Annealing as_it_is(units, request);
    as_it_is.start(start, in_turn);
    best = as_it_is.best();
  }
  if (total <= 0) return best;      // nothing to share
  std::vector<int> spread = start;  // stage s as the first of those of device s
  for (int& stage : spread) stage *= request.stages_per_device;
  for (int round = 0; round < kRestarts; ++round) {
    Annealing annealing(units, request);
    if (round % 2 == 0)
      annealing.start(spread, in_blocks);
    else
      annealing.start(even_stages(units, order, stages), in_turn);
    annealing.run(request.moves / kRestarts, total / request.devices);
    if (annealing.best().bottleneck < best.bottleneck) best = annealing.best();
  }
  return best;
}

}  // namespace kerf::partitioner
