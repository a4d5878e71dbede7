#include "partitioner/cuts/group_prices.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "partitioner/at.h"
#include "partitioner/cuts/spread.h"
#include "partitioner/rewrite.h"
#include "partitioner/sources.h"
#include "partitioner/stage_price.h"

namespace kerf::partitioner {

// All layers from `begin` on, on one group.
struct GroupPrices::Shape {
  struct Member {
    Prices own;              // by layer: seconds of computing, and of what only this layer reads
    std::vector<int> calls;  // by layer
    Prices inside;           // by value: where its own group makes it
    std::vector<ops::Box> need;  // by value; without axes where it reads nothing of it
  };
  int number = 0;
  std::vector<ops::Layout> nodes;  // their divisions
  std::vector<Member> members;
  std::vector<std::vector<ops::Box>> made;  // by value: the distinct boxes that members make
};

// A model as groups of a shape divide it.
struct GroupPrices::OnGroup {
  std::optional<Model> own;  // rewritten
  const Model* model = nullptr;
  std::optional<Spreading> spreading;
  bool by_samples = false;       // and there are enough
  std::vector<size_t> layer_of;  // by node
  std::vector<bool> divides;     // by layer: the way divides it
  std::vector<ValueId>
      values;  // by value: its number in this model; -1 where a rewrite leaves none
               // of its name
  std::vector<std::unique_ptr<Shape>> shapes;
  std::map<int, const Shape*> shape_of;  // by first layer
};

namespace {

constexpr size_t kMostDivisions = 20'000;  // of nodes, for all layers that a stage may begin with

double elements_of(const ops::Box& box, const ops::Shape& shape) {
  return static_cast<double>(ops::local_shape(box, shape).elements());
}

}  // namespace

GroupPrices::GroupPrices(const Model& model, const PlanRequest& request)
    : model_(model),
      request_(request),
      gradients_(model, request.trains),
      layers_(layers_of(model)),
      reads_(layers_.size()),
      crossing_(layers_.size() + 1),
      work_before_{0} {
  const std::vector<size_t> layer_of = layer_of_nodes(model);
  for (ValueId id = 0; id < model.values(); ++id) {
    const Value& value = model.value(id);
    if (value.producer < 0) continue;
    const auto producer = static_cast<int>(layer_of[at(value.producer)]);
    std::vector<int> readers;
    for (const Use& use : model.uses(id))
      if (const auto reader = static_cast<int>(layer_of[at(use.node)]); reader != producer)
        readers.push_back(reader);
    if (readers.empty()) continue;
    std::sort(readers.begin(), readers.end());
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    int earlier = -1;
    for (const int reader : readers)
      reads_[at(reader)].push_back({values_.size(), producer, std::exchange(earlier, reader)});
    values_.push_back(id);
    for (int boundary = producer + 1; boundary <= readers.back(); ++boundary)
      crossing_[at(boundary)] += static_cast<double>(value.spec.bytes(request.batch));
  }
  for (const std::vector<NodeId>& layer : layers_) {
    work_before_.push_back(work_before_.back());
    for (const NodeId node : layer)
      work_before_.back() +=
          node_work(model, request, node, whole_division(model, node, 0).shares[0].box).total();
  }
}

GroupPrices::~GroupPrices() = default;

double GroupPrices::pace(int first, int workers) const {
  double speed = 0;
  for (const int part : parts_from(first, workers))
    speed += request_.speed.capacities.speed_of(request_.worker_of(part));
  return workers / speed;
}

double GroupPrices::price(int begin, int end, GroupShape shape, GroupShape before) {
  const std::scoped_lock lock(mutex_);
  return row(begin, shape, begin == 0 ? shape : before)[at(end - begin - 1)];
}

const Model& GroupPrices::by_sample() {
  if (!by_sample_) {
    const int64_t largest = request_.largest_micro_batch();
    const Group all{layers(), {static_cast<int>(std::min<int64_t>(largest, 2)), Way::kSample}};
    by_sample_ =
        std::make_unique<Model>(rewritten(model_, rewrites_of_groups(model_, request_, {all})));
  }
  return *by_sample_;
}

GroupPrices::OnGroup& GroupPrices::on_group(GroupShape group) {
  std::unique_ptr<OnGroup>& known = groups_[group];
  if (known) return *known;
  known = std::make_unique<OnGroup>();
  OnGroup& on = *known;
  const int64_t largest = request_.largest_micro_batch();
  const bool by_samples = group.way == Way::kSample;
  if (!by_samples && model_.original() == nullptr)
    on.own = rewritten(model_, rewrites_of_groups(model_, request_, {{layers(), group}}));
  on.model = by_samples ? &by_sample() : on.own ? &*on.own : &model_;
  on.by_samples = by_samples && largest >= group.workers;
  on.spreading.emplace(*on.model, SpreadRules{.pairs = request_.pairs});
  on.layer_of = layer_of_nodes(*on.model);
  on.divides.assign(layers_.size(), !by_samples || on.by_samples);
  for (const ValueId value : values_)
    on.values.push_back(on.model->find_value(model_.value(value).name));
  return on;
}

// What comes before is somewhere else.
std::vector<ops::Layout> GroupPrices::divided(const OnGroup& on, GroupShape group,
                                              int begin) const {
  const Model& model = *on.model;
  const std::vector<int> parts = parts_from(0, group.workers);
  Division division{.nodes = {}, .largest = request_.largest_micro_batch()};
  division.nodes.resize(at(model.nodes()));
  for (NodeId node = 0; node < model.nodes(); ++node) {
    ops::Layout& layout = division.nodes[at(node)];
    if (on.layer_of[at(node)] < at(begin))
      layout = whole_division(model, node, group.workers);
    else if (on.by_samples)
      layout = divide_by_samples(model.op(node).space(), parts, division.largest);
    else
      layout = on.spreading->divide(node, parts, division);
  }
  return std::move(division.nodes);
}

const GroupPrices::Shape& GroupPrices::shape_of(GroupShape group, int begin) {
  OnGroup& on = on_group(group);
  const bool depends = request_.pairs && group.way == Way::kFeature && group.workers > 1 &&
                       at(model_.nodes()) * layers_.size() <= kMostDivisions;
  if (!depends) begin = 0;
  const Shape*& known = on.shape_of[begin];
  if (known != nullptr) return *known;
  const Model& model = *on.model;
  Division division{divided(on, group, begin), request_.largest_micro_batch()};
  const auto is_same = [&](const std::unique_ptr<Shape>& shape) {
    for (NodeId node = 0; node < model.nodes(); ++node)
      if (on.layer_of[at(node)] >= at(begin) && division.nodes[at(node)] != shape->nodes[at(node)])
        return false;
    return true;
  };
  const auto same = std::find_if(on.shapes.begin(), on.shapes.end(), is_same);
  if (same != on.shapes.end()) return *(known = same->get());
  for (NodeId node = 0; node < model.nodes(); ++node)
    for (const ops::Share& share : division.nodes[at(node)].shares) {
      if (ops::check_iterations(model.op(node).space(), share.box, division.largest).empty())
        continue;
      on.divides[on.layer_of[at(node)]] = false;
      division.nodes[at(node)] = whole_division(model, node, 0);
      break;
    }
  Shape& shape = *on.shapes.emplace_back(std::make_unique<Shape>());
  shape.number = shapes_++;
  shape.members.resize(at(group.workers));
  const Sources sources(model, division);
  find_own(sources, on, shape);
  find_values(sources, on, shape);
  shape.nodes = std::move(division.nodes);
  return *(known = &shape);
}

double GroupPrices::wire_of(const Value& value, bool returns, double elements,
                            double messages) const {
  if (messages == 0) return 0;
  const auto bytes = elements * static_cast<double>(ops::size_of(value.spec.dtype));
  const bool of_step = ops::is_kept(value.role);
  if (of_step && !request_.trains) return 0;  // each has its copy from the start
  const double both = returns ? 2 : 1;        // there and back
  const double steps = of_step ? 1
                       : value.spec.shape.batched()
                           ? static_cast<double>(request_.batch) /
                                 static_cast<double>(request_.largest_micro_batch())
                           : request_.micro_batches;
  return wire_price(request_, both * steps * bytes,
                    both * messages * (of_step ? 1 : request_.micro_batches));
}

// Computing, parameters that several members read, and values that stay within a layer.
void GroupPrices::find_own(const Sources& sources, const OnGroup& on, Shape& shape) const {
  const Model& model = sources.model();
  for (Shape::Member& member : shape.members) {
    member.own.resize(layers_.size());
    member.calls.resize(layers_.size());
  }
  const Computation* last = nullptr;
  double work = 0;
  for (const Computation& call : sources.computations()) {
    if (last == nullptr || last->node != call.node || last->iterations != call.iterations)
      work = node_work(model, request_, call.node, call.iterations).total();
    last = &call;
    if (at(call.part) == shape.members.size()) continue;
    shape.members[at(call.part)].own[on.layer_of[at(call.node)]] += work;
    ++shape.members[at(call.part)].calls[on.layer_of[at(call.node)]];
  }
}

void GroupPrices::find_values(const Sources& sources, const OnGroup& on, Shape& shape) const {
  const Model& model = sources.model();
  std::vector<int> number(at(model.values()), -1);  // among those that layers read of others
  for (size_t i = 0; i < on.values.size(); ++i)
    if (on.values[i] >= 0) number[at(on.values[i])] = static_cast<int>(i);
  for (Shape::Member& member : shape.members) {
    member.inside.resize(values_.size());
    member.need.resize(values_.size());
  }
  shape.made.resize(values_.size());
  for (ValueId value = 0; value < model.values(); ++value) {
    const Value& fact = model.value(value);
    if (model.uses(value).empty() || (fact.producer < 0 && !ops::is_kept(fact.role))) continue;
    const int own = number[at(value)];
    if (own >= 0)
      for (const ops::Share& share : sources.shares(value))
        if (auto& made = shape.made[at(own)];
            std::find(made.begin(), made.end(), share.box) == made.end())
          made.push_back(share.box);
    for (const int part : sources.readers(value)) {
      if (at(part) == shape.members.size()) continue;
      double elements = 0;
      std::vector<bool> senders(shape.members.size() + 1);
      for (const Source& source : sources.of_value(value, part)) {
        if (source.part == part) continue;
        elements += elements_of(source.box, sources.shape(value));
        senders[at(source.part)] = true;
      }
      const auto messages = static_cast<double>(std::count(senders.begin(), senders.end(), true));
      Shape::Member& member = shape.members[at(part)];
      const double seconds =
          wire_of(fact, request_.trains && sources.differentiable(value), elements, messages);
      if (own < 0) {
        member.own[on.layer_of[at(model.uses(value).front().node)]] += seconds;
      } else {
        member.inside[at(own)] = seconds;
        member.need[at(own)] = *sources.need(value, part);
      }
    }
  }
}

// By member and value: what comes from a group that is divided so.
const GroupPrices::ByMember& GroupPrices::entering(const Shape& to, const Shape& from) {
  ByMember& result = entering_[{to.number, from.number}];
  if (!result.empty()) return result;
  for (const Shape::Member& member : to.members) {
    Prices& prices = result.emplace_back(values_.size());
    for (size_t value = 0; value < values_.size(); ++value) {
      const ops::Box& need = member.need[value];
      const Value& fact = model_.value(values_[value]);
      const ops::ValueSpec& spec = fact.spec;
      if (need.axes.empty() && spec.shape.rank() > 0) continue;
      double messages = 0;
      for (const ops::Box& made : from.made[value])
        if (need.is_whole() || made.is_whole() || !ops::intersect(made, need).empty()) ++messages;
      const ops::Shape concrete = spec.shape.with_batch(request_.largest_micro_batch());
      prices[value] =
          wire_of(fact, gradients_.of(values_[value]), elements_of(need, concrete), messages);
    }
  }
  return result;
}

const GroupPrices::Prices& GroupPrices::row(int begin, GroupShape shape, GroupShape before) {
  Prices& prices = rows_[{begin, shape, before}];
  if (prices.empty()) prices = new_row(begin, shape, before);
  return prices;
}

GroupPrices::Prices GroupPrices::new_row(int begin, GroupShape group, GroupShape before) {
  const Shape& shape = shape_of(group, begin);
  const ByMember& from_before = entering(shape, shape_of(before, 0));
  const std::vector<bool>& layer_divides = on_group(group).divides;
  Prices prices;
  Prices sums(shape.members.size());
  std::vector<int> calls(shape.members.size());
  bool divides = true;
  for (int layer = begin; layer < layers(); ++layer) {
    divides = divides && layer_divides[at(layer)];
    double most = 0;
    for (size_t m = 0; m < sums.size(); ++m) {
      const Shape::Member& member = shape.members[m];
      sums[m] += member.own[at(layer)];
      calls[m] += member.calls[at(layer)];
      for (const Read& read : reads_[at(layer)]) {
        if (read.earlier >= begin) continue;
        sums[m] += read.producer >= begin ? member.inside[read.value] : from_before[m][read.value];
      }
      most = std::max(most, sums[m]);
    }
    const auto idle = static_cast<double>(std::count(calls.begin(), calls.end(), 0));
    prices.push_back(divides ? most + idle * kIdle : kNever);
  }
  return prices;
}

}  // namespace kerf::partitioner
