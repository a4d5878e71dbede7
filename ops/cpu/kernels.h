// The CPU's kernels: one factory per operator, each implemented in a file of its own.
//
// A kernel belongs to one thread, uses as many threads as OpenMP gives that thread
// (omp_set_num_threads), and takes its scratch memory from `device`, which must outlive it.
#pragma once

#include <memory>

#include "ops/operator.h"

namespace kerf::ops {

struct GemmOptions;
struct WindowOptions;

namespace cpu {

std::unique_ptr<Kernel> make_add_kernel();
std::unique_ptr<Kernel> make_alias_kernel();
std::unique_ptr<Kernel> make_average_pool_kernel(const WindowOptions& options, bool count_padding);
std::unique_ptr<Kernel> make_conv_kernel(const WindowOptions& options, runtime::Device& device);
// What make_conv_kernel's kernel takes from its device while it runs, at most.
size_t conv_workspace_bytes(const WindowOptions& options, std::span<const ValueSpec> inputs,
                            int threads);
std::unique_ptr<Kernel> make_dropout_kernel(double ratio);
std::unique_ptr<Kernel> make_gemm_kernel(const GemmOptions& options);
std::unique_ptr<Kernel> make_matmul_kernel();
std::unique_ptr<Kernel> make_max_pool_kernel(const WindowOptions& options);
std::unique_ptr<Kernel> make_relu_kernel();
std::unique_ptr<Kernel> make_softmax_kernel(int64_t axis);
std::unique_ptr<Kernel> make_softmax_cross_entropy_kernel();

}  // namespace cpu
}  // namespace kerf::ops
