// The free cut (free-neuron): any index set of any operator to any worker, from a file:
//
//   {"kerf_shares": 1,
//    "shares": {"fc1": {"0": "0-99,300", "1": "100-299,301-511"}, "loss": {"2": "all"}}}
//
// node -> worker -> indices of its feature axis; "all" is the whole. Nodes that are not listed
// follow their input, or are divided evenly. One stage of all workers.
#include <charconv>
#include <numeric>

#include "partitioner/cuts/spread.h"
#include "runtime/json.h"

namespace kerf::partitioner {
namespace {

using ops::IndexSet;
using ops::Layout;

// The file under its name, and what is wrong with it.
class SharesFile {
 public:
  SharesFile(const Model& model, const PlanRequest& request)
      : model_(model),
        workers_(request.workers),
        origin_(request.shares_origin.empty() ? "shares" : request.shares_origin) {
    if (request.shares.empty())
      throw Error(
          ErrorCode::kUsage,
          "the free cut needs a file that says which worker computes what; give --shares "
          "FILE with {\"kerf_shares\": 1, \"shares\": {\"NODE\": {\"WORKER\": \"0-9,12\"}}}");
    file_ = parse_json(request.shares, origin_);
  }

  std::vector<std::optional<Layout>> layouts() const {
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
      result[static_cast<size_t>(node)] = layout_of(node, name, by_worker);
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

  IndexSet set_of(NodeId node, const std::string& name, const std::string& key,
                  const Json& text) const {
    if (!text.is_string())
      fail(name, format("worker {}: indices are text, \"0-99,300\" or \"all\"", key));
    IndexSet set =
        ops::parse_index_set(text.get<std::string>(), format("{}, worker {}", where(name), key));
    if (set.is_all()) return set;
    const int axis = model_.op(node).feature_axis();
    if (axis < 0)
      fail(name,
           format("{} has no features to divide; give one worker \"all\"", model_.node(node).op));
    const int64_t extent = model_.output_specs(node)[0].shape[axis];
    if (!set.empty() && set.ranges().back().end > extent)
      fail(name, format("worker {}: index {} is beyond the last, {}", key,
                        set.ranges().back().end - 1, extent - 1));
    return set.normalized(extent);
  }

  Layout layout_of(NodeId node, const std::string& name, const Json& by_worker) const {
    if (!by_worker.is_object() || by_worker.empty())
      fail(name, "must be an object, {\"WORKER\": \"INDICES\"}");
    std::vector<IndexSet> sets(static_cast<size_t>(workers_), IndexSet::none());
    std::vector<bool> named(sets.size(), false);
    for (const auto& [key, text] : by_worker.items()) {
      const auto worker = static_cast<size_t>(worker_of(name, key));
      if (named[worker]) fail(name, format("worker {} is there twice", worker));
      named[worker] = true;
      sets[worker] = set_of(node, name, key, text);
    }
    Layout layout;
    for (size_t worker = 0; worker < sets.size(); ++worker)
      if (!sets[worker].empty())
        layout.shares.push_back(
            {static_cast<int>(worker), feature_box(model_, node, sets[worker]), false});
    if (model_.op(node).is_loss() && layout.shares.size() > 1)
      fail(name, "the loss is computed by one worker; give it \"all\"");
    check_cover(node, name, sets);
    const std::string fault = ops::check_layout(layout, model_.output_specs(node)[0].shape);
    if (!fault.empty()) fail(name, fault);
    return layout;
  }

  // Every feature on some worker, and on several only where they compute the very same features.
  void check_cover(NodeId node, const std::string& name, const std::vector<IndexSet>& sets) const {
    const int axis = model_.op(node).feature_axis();
    const int64_t extent = axis < 0 ? 1 : model_.output_specs(node)[0].shape[axis];
    IndexSet covered = IndexSet::none();
    for (size_t w = 0; w < sets.size(); ++w) {
      for (size_t v = 0; v < w; ++v) {
        const IndexSet common = ops::intersect(sets[v], sets[w]);
        if (!common.empty() && sets[v] != sets[w])
          fail(name, format("workers {} and {} both have {}; give it to one of them", v, w,
                            ops::to_string(common)));
      }
      covered = ops::unite(covered, sets[w]);
    }
    const IndexSet missing = ops::subtract(IndexSet::all(), covered, extent);
    if (!missing.empty())
      fail(name, format("nobody has {}; give every index from 0 to {} to a worker",
                        ops::to_string(missing), extent - 1));
  }

  const Model& model_;
  const int workers_;
  const std::string origin_;
  Json file_;
};

}  // namespace

Assignment cut_free(const Model& model, const PlanRequest& request) {
  Stage all;
  all.nodes.resize(static_cast<size_t>(model.nodes()));
  std::iota(all.nodes.begin(), all.nodes.end(), 0);
  all.parts.resize(static_cast<size_t>(request.workers));
  std::iota(all.parts.begin(), all.parts.end(), 0);
  return spread_all(model, request, {std::move(all)}, SharesFile(model, request).layouts());
}

}  // namespace kerf::partitioner
