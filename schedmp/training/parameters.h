// A worker's shares of the parameters, with their gradients and the optimizer's states: what lives
// from the first step to the last. Each of the three is one stretch of memory, in model order; and
// so is what kernels keep of them in layouts of their own, call by call.
// Used by the compute thread only.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/workbench.h"
#include "partitioner/part.h"
#include "runtime/store.h"
#include "schedmp/snapshot_part.h"

namespace kerf::schedmp {

class StoredSlices;
struct RowRange;
struct StoredSlice;
enum class Reach : uint8_t;

class Parameters {
 public:
  // Of the parts of one worker, with what so many micro-batches say of a state. Initialised from
  // `seed`, by the elements' place in the whole tensor; gradients and states, which only a run that
  // `trains` has, are 0. All references outlive this. `alive` is called whenever one is written:
  // many take longer than a worker may be without progress.
  Parameters(const partitioner::Model& model, std::vector<const partitioner::Part*> parts,
             ops::Workbench& bench, const ops::OptimizerOptions& optimizer, uint64_t seed,
             bool trains, int micro_batches, const Alive& alive = {});

  // Of a persistent local of a part (by its place among the worker's).
  const ops::TensorView& view(size_t part, int local) const {
    return views_[part][static_cast<size_t>(places_[part][static_cast<size_t>(local)])];
  }
  // The same, so many updates of the part ago, as far as its stage keeps versions.
  ops::TensorView view(size_t part, int local, int behind) const;
  // What a micro-batch says of a state, until an update takes it: by its place among those that
  // have one.
  ops::TensorView statistics(size_t part, int local, size_t place) const {
    ops::TensorView one = view(part, local);
    one.data += place * stride_of(one);
    return one;
  }
  // What the kernel of a call keeps, and what it holds for: the version changes with the weights.
  std::span<std::byte> packed(size_t part, int call) const {
    return packed_[part][static_cast<size_t>(call)];
  }
  int64_t version() const { return version_; }
  // Something else may have written weights: a message from their home.
  void changed() { ++version_; }
  // Nothing is under way: versions count from here.
  void count_versions() { std::fill(updates_.begin(), updates_.end(), 0); }
  // Before an update of a part's weights within the step: what they are becomes a version, if
  // anything may yet read it.
  void keep_version(size_t part, bool is_read);
  // Of the updates from now on.
  void set_pace(const ops::Pace& pace);
  // Unless the step says that it is not finite by then.
  void update(size_t part, int home, const ops::TensorView& gradient, const ops::StepSays& step);

  // Both wait for the device: they are no part of a step. This worker's shares out of a file of
  // whole tensors. Throws Error{kUsage} naming what is missing or of another shape.
  void load(const std::filesystem::path& safetensors, const Alive& alive = {});
  // What `layouts` lay out, by value, on one of these parts: named by its place among the worker's,
  // and by its number in the plan.
  void save(size_t part, int number, const std::vector<ops::Layout>& layouts,
            std::unique_ptr<runtime::WritableFile> safetensors, const Alive& alive = {}) const;
  // For checkpoints: weights and optimizer states, all that is here, or as `layouts` share it out,
  // each box once. The slices are written while this lives and no step is under way.
  std::vector<StoredSlice> slices(Reach reach, const std::vector<ops::Layout>& layouts) const;
  // `kind_of`: what they are called there.
  using KindOf = std::function<std::string(const std::string& kind, const std::string& tensor)>;
  void load(StoredSlices& slices, const KindOf& kind_of);

 private:
  struct Tensor {
    size_t part = 0;
    int local = 0;
  };
  static size_t stride_of(const ops::TensorView& one);
  static bool holds_weights(const partitioner::Local& local) {
    return local.kind == partitioner::LocalKind::kParameter ||
           local.kind == partitioner::LocalKind::kHome;
  }
  // In model order.
  std::vector<Tensor> tensors(const std::function<bool(const partitioner::Local&)>& wanted) const;
  // Memory of all these tensors, `copies` of each in a row, zeroed, and a view for each.
  template <class Place>
  void lay_out(const std::vector<Tensor>& tensors, int copies, const Place& place);
  // Of tensors that hold a value's weights on a part: the one that has `box`, the home where there
  // is one.
  Tensor holder(const std::vector<Tensor>& all, partitioner::ValueId value,
                const ops::Box& box) const;
  // Contents of a tensor: `view`, its weights or one of its states.
  struct Contents {
    Tensor of;
    ops::TensorView view;
  };
  Contents weights_of(const Tensor& at) const { return {at, view(at.part, at.local)}; }
  void save(const Contents& from, const ops::Box& share,
            const std::function<void(std::string_view)>& to) const;
  void add_slices(const Tensor& at, const ops::Box& box, std::vector<StoredSlice>& to) const;
  // What a tensor has of a slice (weight_slices.h), and where.
  struct Rows {
    ops::Box box;
    ops::TensorView view;
  };
  Rows rows_within(const Contents& at, const ops::Box& slice) const;
  void lay_out_packed();
  // Where the part has what the newest version of that number is kept in, beside the newest.
  ops::TensorView older(size_t part, int local, int number) const;
  // The initial contents.
  void begin(const Tensor& at, uint64_t seed);
  // What `read` gives of each slice of which the tensor has something: its bytes, which begin so
  // many bytes from the value's own begin.
  using Read = std::function<std::string(const RowRange& rows, size_t row_bytes)>;
  void fill(const Contents& at, const Read& read);
  // What the tensor has of `slice`, whose dense bytes outlive the work.
  void write(const Contents& at, const ops::Box& slice, const void* bytes);
  const partitioner::Local& local(const Tensor& tensor) const {
    return parts_[tensor.part]->locals[static_cast<size_t>(tensor.local)];
  }

  const partitioner::Model& model_;
  std::vector<const partitioner::Part*> parts_;
  ops::Workbench& bench_;
  ops::Optimizer optimizer_;
  ops::UpdateRule decaying_;                         // at the step's pace
  ops::UpdateRule staying_;                          // of what does not decay
  std::vector<runtime::Buffer> memory_;              // parameters, gradients, each state
  std::vector<std::vector<int>> places_;             // by part, by local: in the next
  std::vector<std::vector<ops::TensorView>> views_;  // by part; the first, of all others, is empty
  std::vector<std::vector<std::vector<ops::TensorView>>> states_;  // by part, by local
  // By part, of those that keep several versions by local: the first of them.
  std::vector<std::vector<ops::TensorView>> older_;
  std::vector<int> updates_;                               // by part: since versions count
  std::vector<std::vector<std::span<std::byte>>> packed_;  // by part, by call
  int64_t version_ = 1;
};

}  // namespace kerf::schedmp
