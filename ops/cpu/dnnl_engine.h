// oneDNN's engine and stream for one kernel, and its exceptions as ours.
//
// oneDNN lives in this folder only. Belongs to its kernel's thread.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>

#include "runtime/error.h"

namespace kerf::ops::cpu {

class DnnlEngine {
 public:
  DnnlEngine() : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

  const dnnl::engine& engine() const { return engine_; }

  // Runs it to its end. oneDNN on the CPU has no other wait.
  void run(const dnnl::primitive& primitive,
           const std::unordered_map<int, dnnl::memory>& arguments) {
    primitive.execute(stream_, arguments);
    stream_.wait();
  }
  dnnl::memory wrap(const dnnl::memory::desc& desc, const void* data) const {
    return dnnl::memory(desc, engine_, const_cast<void*>(data));
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
};

// Calls `work` and turns oneDNN's exception into Error{kInternal} that names the operator.
template <class Work>
auto guard(std::string_view op, Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const dnnl::error& error) {
    throw Error(ErrorCode::kInternal, format("{}: oneDNN says: {}", op, error.what()));
  }
}

}  // namespace kerf::ops::cpu
