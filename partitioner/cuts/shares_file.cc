#include "partitioner/cuts/shares_file.h"

#include <charconv>

#include "ops/image_format.h"
#include "partitioner/rewrite.h"
#include "runtime/json.h"

namespace kerf::partitioner {
namespace {

using ops::Box;
using ops::IndexSet;
using ops::Layout;

// The file under its name, and what is wrong with it.
class SharesFile {
 public:
  SharesFile(const Model& model, const PlanRequest& request, bool rewriting)
      : model_(model),
        rewriting_(rewriting),
        workers_(request.workers),
        largest_(request.largest_micro_batch()),
        origin_(request.shares_origin.empty() ? "shares" : request.shares_origin) {
    file_ = parse_json(request.shares, origin_);
  }

  std::vector<std::optional<Layout>> divisions() const {
    if (json_int(file_, "kerf_shares", origin_) != 1)
      throw Error(ErrorCode::kUsage, "\"kerf_shares\" must be 1, the version that is understood",
                  origin_);
    for (const auto& [key, value] : file_.items())
      if (key != "kerf_shares" && key != "shares")
        throw Error(ErrorCode::kUsage, format("there is no \"{}\" in a shares file", key), origin_);
    const Json& shares = json_at(file_, "shares", origin_);
    if (!shares.is_object())
      throw Error(ErrorCode::kUsage, "\"shares\" must be an object of nodes", origin_);
    std::vector<std::optional<Layout>> result(static_cast<size_t>(model_.nodes()));
    for (const auto& [name, by_worker] : shares.items()) {
      const NodeId node = model_.find_node(name);
      if (node < 0) fail(name, format("{} has no node of this name", model_.name()));
      result[static_cast<size_t>(node)] = division_of(node, name, by_worker);
    }
    return result;
  }

 private:
  std::string where(const std::string& node) const { return format("{}: node {}", origin_, node); }
  [[noreturn]] void fail(const std::string& node, std::string reason) const {
    throw Error(ErrorCode::kUsage, std::move(reason), where(node));
  }

  int worker_of(const std::string& node, const std::string& key) const {
    int worker = -1;
    const auto [end, fault] = std::from_chars(key.data(), key.data() + key.size(), worker);
    if (fault != std::errc() || end != key.data() + key.size() || worker < 0 || worker >= workers_)
      fail(node, format("\"{}\" is not a worker; they are numbered 0 to {}", key, workers_ - 1));
    return worker;
  }

  IndexSet set_of(const std::string& name, const std::string& key, const Json& text,
                  int64_t extent) const {
    if (!text.is_string())
      fail(name, format("worker {}: indices are text, \"0-99,300\" or \"all\"", key));
    IndexSet set =
        ops::parse_index_set(text.get<std::string>(), format("{}, worker {}", where(name), key));
    if (!set.is_all() && !set.empty() && set.ranges().back().end > extent)
      fail(name, format("worker {}: index {} is beyond the last, {}", key,
                        set.ranges().back().end - 1, extent - 1));
    return set.normalized(extent);
  }

  // The box of iterations that gives these indices of axis 1 of the output, as ONNX counts them.
  Box of_output(NodeId node, const std::string& name, const std::string& key,
                const Json& text) const {
    const ops::BoundOperator& op = model_.op(node);
    const ops::Shape shape = op.outputs()[0].shape.with_batch(largest_);
    Box box = Box::whole(shape.rank());
    if (text.is_string() && text.get<std::string>() == "all") {
      return Box::whole(static_cast<int>(op.space().axes.size()));
    }
    if (op.is_loss() || shape.rank() < 2)
      fail(name, format("{} has no features to divide; name an axis, {{\"{}\": \"INDICES\"}}, or "
                        "give one worker \"all\"",
                        model_.node(node).op, fmt::join(divisible(node), "\" or \"")));
    const int features =
        ops::stored_axis(ops::image_format(model_.node(node).attributes), 1, shape.rank());
    box.axes[static_cast<size_t>(features)] = set_of(name, key, text, shape[features]);
    if (box.empty()) return {};
    const auto iterations =
        ops::iterations_of(op.space(), op.space().outputs[0], op.outputs()[0].shape, box, largest_);
    if (!iterations)
      fail(name, format("worker {}: {} cannot compute {} of its output by itself; divide it by "
                        "whole channels",
                        key, model_.node(node).op, ops::to_string(box)));
    return *iterations;
  }

  // A set for each axis of the iterations that is named.
  Box of_axes(NodeId node, const std::string& name, const std::string& key,
              const Json& sets) const {
    const ops::IterationSpace& space = model_.op(node).space();
    Box box = Box::whole(static_cast<int>(space.axes.size()));
    if (sets.empty())
      fail(name, format("worker {}: it names no axis; give it \"all\", or a set of {}", key,
                        fmt::join(divisible(node), " or ")));
    for (const auto& [axis_name, text] : sets.items()) {
      const int axis = space.find(axis_name);
      if (axis < 0) {
        std::vector<std::string> known;
        for (const ops::IterationAxis& each : space.axes) known.push_back(each.name);
        fail(name, format("worker {}: {} has no axis \"{}\"; it has {}", key, model_.node(node).op,
                          axis_name, fmt::join(known, ", ")));
      }
      const auto at = static_cast<size_t>(axis);
      box.axes[at] = set_of(name, key, text, ops::concrete_extent(space.axes[at].extent, largest_));
    }
    return box;
  }

  Layout division_of(NodeId node, const std::string& name, const Json& by_worker) const {
    if (!by_worker.is_object() || by_worker.empty())
      fail(name, "must be an object, {\"WORKER\": \"INDICES\"}");
    std::vector<std::optional<Box>> boxes(static_cast<size_t>(workers_));
    for (const auto& [key, said] : by_worker.items()) {
      const auto worker = static_cast<size_t>(worker_of(name, key));
      if (boxes[worker]) fail(name, format("worker {} is there twice", worker));
      boxes[worker] =
          said.is_object() ? of_axes(node, name, key, said) : of_output(node, name, key, said);
    }
    Layout division;
    for (size_t worker = 0; worker < boxes.size(); ++worker)
      if (boxes[worker] && !boxes[worker]->axes.empty() && !boxes[worker]->empty())
        division.shares.push_back({static_cast<int>(worker), *boxes[worker]});
    check_cover(node, name, division);
    return division;
  }

  // As the node can be divided: what a rewrite divides counts, where there are to be any.
  ops::IterationSpace space_of(NodeId node) const {
    return rewriting_ ? space_with_rewrites(model_.node(node)) : model_.op(node).space();
  }

  std::vector<std::string> divisible(NodeId node) const {
    std::vector<std::string> names;
    for (const ops::IterationAxis& axis : space_of(node).axes)
      if (axis.undivided.empty()) names.push_back(axis.name);
    return names;
  }

  // Where it divides what must be whole: what it might divide instead.
  std::string way_out(NodeId node, const Box& box) const {
    const ops::IterationSpace space = space_of(node);
    bool blocked = false;
    for (size_t axis = 0; axis < space.axes.size(); ++axis)
      blocked = blocked || (!space.axes[axis].undivided.empty() && !box.axes[axis].is_all());
    if (!blocked) return "";
    if (!rewriting_ && rewrite_needed(model_.node(node), {{{0, box}}}, largest_) != nullptr)
      return "; a rewrite divides it: cut the model that model_for() makes of this one";
    const std::vector<std::string> instead = divisible(node);
    return format("; {}give one worker \"all\"",
                  instead.empty() ? "" : format("divide its {}, or ", fmt::join(instead, " or ")));
  }

  // Every index on some worker, and on several only where they compute the very same.
  void check_cover(NodeId node, const std::string& name, const Layout& division) const {
    const ops::IterationSpace space = space_of(node);
    for (const ops::Share& share : division.shares)
      if (const std::string why = ops::check_iterations(space, share.box, largest_); !why.empty())
        fail(name, format("worker {}: {}{}", share.part, why, way_out(node, share.box)));
    for (size_t i = 0; i < division.shares.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        const Box common = ops::intersect(division.shares[i].box, division.shares[j].box);
        if (common.empty() || division.shares[i].box == division.shares[j].box) continue;
        fail(name,
             format("workers {} and {} both have {}; give it to one of them",
                    division.shares[j].part, division.shares[i].part, divided(space, common)));
      }
    const ops::Shape extents = space.extents().with_batch(largest_);
    for (size_t axis = 0; axis < space.axes.size(); ++axis) {
      IndexSet covered = IndexSet::none();
      for (const ops::Share& share : division.shares)
        covered = ops::unite(covered, share.box.axes[axis]);
      const int64_t extent = extents[static_cast<int>(axis)];
      const IndexSet missing = ops::subtract(IndexSet::all(), covered, extent);
      if (!missing.empty())
        fail(name, format("nobody has {} of its {}; give every index from 0 to {} to a worker",
                          ops::to_string(missing), space.axes[axis].name, extent - 1));
    }
    const std::string fault = ops::check_layout(division, extents);
    if (!fault.empty()) fail(name, fault);
  }

  // "outputs 3-4", of the axes that the box divides.
  static std::string divided(const ops::IterationSpace& space, const Box& box) {
    std::string text;
    for (size_t axis = 0; axis < space.axes.size(); ++axis)
      if (!box.axes[axis].is_all())
        text += format("{}{} {}", text.empty() ? "" : ", ", space.axes[axis].name,
                       ops::to_string(box.axes[axis]));
    return text.empty() ? "all" : text;
  }

  const Model& model_;
  const bool rewriting_;
  const int workers_;
  const int64_t largest_;
  const std::string origin_;
  Json file_;
};

}  // namespace

std::vector<std::optional<Layout>> read_shares(const Model& model, const PlanRequest& request,
                                               bool rewriting) {
  return SharesFile(model, request, rewriting).divisions();
}

}  // namespace kerf::partitioner
