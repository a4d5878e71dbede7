// Data sets: rows of inputs and labels that workers read by themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "partitioner/model.h"
#include "schedmp/numbering.h"

namespace kerf::schedmp {

// Immutable after construction; thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t rows() const = 0;
  // What a row has for the model's input of this name, as [N, ...]: its element type, and its
  // shape, of which a model may read the elements in another. Empty where it has nothing for it.
  virtual std::optional<ops::ValueSpec> input(std::string_view name) const = 0;
  // Whether it has that by this name; else its rows are one input, whatever a model calls it.
  virtual bool has_own(std::string_view /*name*/) const { return true; }
  // Of each row: one label [N], or one for each of its positions [N, ...]. Below classes().
  virtual ops::Shape labels() const { return {ops::kBatch}; }
  // May go through all of them the first time, and throw Error{kUsage} that names what is no class.
  virtual int64_t classes() const = 0;
  // Whether those are all classes that there are; else they occur, of as many as a model may have.
  virtual bool classes_are_all() const { return false; }
  // What its classes or tokens stand for, where it numbers them by itself.
  virtual Numbering numbering() const { return {}; }
  // What it has, for people who look for an input in vain: "x, y". May be empty.
  virtual std::string offers() const { return {}; }
  // Of each row numbers that a model is to come near to, as [N, ...]: what is read of float32
  // labels. Empty where it has none.
  virtual std::optional<ops::Shape> targets() const { return std::nullopt; }
  // Compared between the scheduler and every worker before a run: over contents, or over what
  // changes with them where reading all would take long.
  virtual std::string fingerprint() const = 0;
  // Row `rows[i]` to row i of `to`, of the input's type; or of labels, int64, or float32 of
  // targets.
  virtual void read_input(std::string_view name, std::span<const int64_t> rows,
                          const ops::TensorView& to) const = 0;
  virtual void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const = 0;
  // Does now what the first read of each of these inputs would do for all of its rows, so that no
  // step pays for it.
  virtual void prepare(std::span<const std::string> /*inputs*/) const {}
  // Of rows that lie in memory by now: no tensors, so in no proof.
  virtual int64_t held_bytes() const { return 0; }
  // Whether reading a row is worth a thread that does it beforehand: rows come from files, or are
  // decoded.
  virtual bool loads_ahead() const { return false; }
};

// Rows of float32 features and one label each: whatever the model calls its input.
class FeatureRows : public Dataset {
 public:
  virtual int64_t features() const = 0;  // per row
  virtual void read_features(std::span<const int64_t> rows, const ops::TensorView& to) const = 0;

  std::optional<ops::ValueSpec> input(std::string_view) const final {
    return ops::ValueSpec{ops::DType::kFloat32, {ops::kBatch, features()}};
  }
  bool has_own(std::string_view) const final { return false; }
  void read_input(std::string_view, std::span<const int64_t> rows,
                  const ops::TensorView& to) const final {
    read_features(rows, to);
  }
};

enum class Split : uint8_t { kTrain, kTest };

// Called again and again by what takes long, so that nobody takes it for stuck. May be empty.
using Working = std::function<void()>;

// What a run asks of a data set beside its rows.
struct DataRequest {
  Working working = {};  // called as long as the data set lives
  // That reads the rows; looked at while the data set is opened. Null: any.
  const partitioner::Model* model = nullptr;
  // By which the weights that the run begins with were trained, if they say so.
  std::optional<Numbering> numbering = {};
};

// By name. Throws Error{kUsage} that names the file and the way out.
using DatasetFactory = std::function<std::shared_ptr<const Dataset>(
    const std::string& name, Split split, const DataRequest& request)>;

// What a run reads of a data set, as its scheduler has it.
struct OpenSplits {
  std::shared_ptr<const Dataset> train;  // null where it reads none of it
  std::shared_ptr<const Dataset> test;
};
// Opens the splits that are asked for, for request.model, and throws as the factory and as
// check_fits().
OpenSplits open_splits(const DatasetFactory& open, const std::string& name,
                       const DataRequest& request, bool train, bool test);

// Of the model, in its order.
std::vector<std::string> input_names(const partitioner::Model& model);
// An input of a model, as who reads rows for it needs to know it.
struct InputNeed {
  ops::ValueSpec spec;
  int64_t picks_from = 0;  // its numbers are indices into so many, from 0; 0: they are none
};
std::map<std::string, InputNeed, std::less<>> input_needs(const partitioner::Model& model);
// The least extent that any input of the model picks from; 0 where none does.
int64_t least_picked_from(const partitioner::Model& model);
// Throws Error{kUsage} at `origin` for a number that is no index into `extent`, with its row: of
// `rows`, which count from row `first` of the file. An extent of 0 takes all.
void check_indices(const ops::TensorView& numbers, std::span<const int64_t> rows, int64_t first,
                   int64_t extent, const std::string& origin);

// How many classes the model's labels may have, 0 if it reads none, or targets: the scores of the
// node that reads them have one for each.
int64_t label_classes(const partitioner::Model& model);
// How many answers a row has: one where they are targets.
int64_t labels_per_row(const Dataset& data, const partitioner::Model& model);

// Throws Error{kUsage} that names data set, model and value unless every input and label of the
// model can be read from it: of several inputs, each by its name. Axes are those of the model,
// but for those of 1, or one for all elements. The model may have more classes than occur.
void check_fits(const Dataset& data, const std::string& name, const partitioner::Model& model);

}  // namespace kerf::schedmp
