// oneDNN's engine and stream for one kernel, and its exceptions as ours.
//
// oneDNN lives in this folder only. Belongs to its kernel's thread.
#pragma once

#include <omp.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>

#include "ops/workspace.h"
#include "runtime/error.h"

namespace kerf::ops::cpu {

class DnnlEngine {
 public:
  DnnlEngine() : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

  const dnnl::engine& engine() const { return engine_; }

  struct Argument {
    int name = 0;  // DNNL_ARG_SRC, ...
    const dnnl::memory& memory;
  };
  // Runs it to its end. oneDNN on the CPU has no other wait. Allocates nothing, unlike the map that
  // dnnl::primitive::execute takes.
  void run(const dnnl::primitive& primitive, std::initializer_list<Argument> arguments) {
    std::array<dnnl_exec_arg_t, 8> list{};
    KERF_CHECK(arguments.size() <= list.size(), "{} arguments", arguments.size());
    int count = 0;
    for (const Argument& argument : arguments)
      list[static_cast<size_t>(count++)] = {argument.name, argument.memory.get()};
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(primitive.get(), stream_.get(), count, list.data()),
        "could not execute a primitive");
    stream_.wait();
  }
  // A tensor whose data is set for each call.
  dnnl::memory room_for(const dnnl::memory::desc& desc) const {
    return dnnl::memory(desc, engine_, DNNL_MEMORY_NONE);
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
};

// oneDNN writes through const pointers only where it is told to.
inline void point(dnnl::memory& memory, const void* data) {
  memory.set_data_handle(const_cast<void*>(data));
}

// Attributes of a primitive whose scratchpad is memory that the plan granted.
inline dnnl::primitive_attr scratchpad_by_user() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

// What the kernels of a call take with so many threads: primitives are described for as many as
// the calling thread has.
template <class Work>
auto with_threads(int threads, const Work& work) {
  struct Restored {
    int before = omp_get_max_threads();
    ~Restored() { omp_set_num_threads(before); }
  } const restored;
  omp_set_num_threads(threads);
  return work();
}

// The first of the library's ways, best first, that takes no more memory than was granted; false
// where none does. For the sizes that a plan knows of it is the best, since the grant is what that
// takes; of fewer rows (the last of an epoch) the library's best may take more. `bytes()`: what the
// present one takes.
template <class Description, class Bytes>
bool take_granted(Description& description, size_t granted, const Bytes& bytes) {
  while (bytes() > granted)
    if (!description.next_impl()) return false;
  return true;
}
[[noreturn]] inline void throw_nothing_granted(size_t granted) {
  throw Error(ErrorCode::kInternal,
              format("oneDNN has no way that does with the {} bytes granted", granted));
}
inline constexpr size_t kAnyGrant = SIZE_MAX;

// Rows of matrices, or of images' pixels, with each channel's apart. Sizes are of 64 bits, but
// oneDNN counts with 32 of them, and may divide by what is left: throws Error{kInfeasible} where
// one does not fit.
inline void check_rows(std::initializer_list<int64_t> rows) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (const int64_t most = std::max(rows); most > kMost)
    throw Error(ErrorCode::kInfeasible,
                format("computes {} rows at once, of {} at most; use a smaller --batch or more "
                       "--micro-batches",
                       most, kMost));
}

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
