// Data sets: rows of features and labels that workers read by themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "ops/tensor.h"

namespace kerf::schedmp {

// Immutable after construction; thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t features() const = 0;  // float32 per row
  virtual int64_t classes() const = 0;
  // Over contents; compared between the scheduler and every worker before a run.
  virtual std::string fingerprint() const = 0;
  // Row `rows[i]` to row i of `to` ([n, features...] float32, or [n] int64).
  virtual void read_features(std::span<const int64_t> rows, const ops::TensorView& to) const = 0;
  virtual void read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const = 0;
  // Does now what the first read_features would do for all of them, so that no step pays for it.
  virtual void prepare() const {}
};

enum class Split : uint8_t { kTrain, kTest };

// By name. Throws Error{kUsage} that names the file and the way out.
using DatasetFactory =
    std::function<std::shared_ptr<const Dataset>(const std::string& name, Split split)>;

}  // namespace kerf::schedmp
