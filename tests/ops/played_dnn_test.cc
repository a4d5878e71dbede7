// The cuDNN that the host plays (tests/support/cuda_on_host/cudnn.cc) refuses what the real one
// does.
#include <cudnn_backend.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/cuda_on_host/gpu.h"

namespace kerf::tests {
namespace {

using Ints = std::vector<int64_t>;

// 1 x 2 x 3 x 3 by one filter of 2 x 2 x 2.
class PlayedCudaDnn : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    cudaSetDevice(0);
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    cudnnCreate(&handle_);
    cudnnSetStream(handle_, stream_);
    for (void** each : {&x_, &w_, &y_}) cudaMalloc(each, 18 * sizeof(float));
    cudaMalloc(&workspace_, 384);
  }
  void TearDown() override {
    for (const auto each : made_) cudnnBackendDestroyDescriptor(each);
    for (void* each : {x_, w_, y_, workspace_}) cudaFree(each);
    cudnnDestroy(handle_);
    cudaStreamDestroy(stream_);
  }

  cudnnBackendDescriptor_t make(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = nullptr;
    cudnnBackendCreateDescriptor(type, &made);
    made_.push_back(made);
    return made;
  }
  static cudnnStatus_t set(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
                           const Ints& numbers) {
    return cudnnBackendSetAttribute(to, name, CUDNN_TYPE_INT64, std::ssize(numbers),
                                    numbers.data());
  }
  static cudnnStatus_t give(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
                            cudnnBackendDescriptor_t given) {
    return cudnnBackendSetAttribute(to, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &given);
  }
  cudnnBackendDescriptor_t unfinished_tensor(int64_t id, const Ints& sizes) {
    const cudnnBackendDescriptor_t tensor = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, sizes);
    set(tensor, CUDNN_ATTR_TENSOR_STRIDES,
        {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1});
    set(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, {id});
    set(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {16});
    return tensor;
  }
  cudnnBackendDescriptor_t tensor(int64_t id, const Ints& sizes) {
    const auto made = unfinished_tensor(id, sizes);
    EXPECT_EQ(cudnnBackendFinalize(made), CUDNN_STATUS_SUCCESS);
    return made;
  }
  cudnnBackendDescriptor_t convolution(const Ints& pads_behind = {0, 0}) {
    const auto made = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    cudnnBackendSetAttribute(made, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1,
                             &type);
    cudnnBackendSetAttribute(made, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1,
                             &mode);
    set(made, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {2});
    set(made, CUDNN_ATTR_CONVOLUTION_DILATIONS, {1, 1});
    set(made, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {1, 1});
    set(made, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {0, 0});
    set(made, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, pads_behind);
    EXPECT_EQ(cudnnBackendFinalize(made), CUDNN_STATUS_SUCCESS);
    return made;
  }
  cudnnBackendDescriptor_t unfinished_operation(const Ints& y, const Ints& pads_behind = {0, 0}) {
    const auto made = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    const float one = 1;
    give(made, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, convolution(pads_behind));
    give(made, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, tensor(1, {1, 2, 3, 3}));
    give(made, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, tensor(2, {1, 2, 2, 2}));
    give(made, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, tensor(3, y));
    for (const auto name : {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA})
      cudnnBackendSetAttribute(made, name, CUDNN_TYPE_FLOAT, 1, &one);
    return made;
  }
  cudnnBackendDescriptor_t configuration(cudnnBackendHeurMode_t mode, const Ints& y = {1, 1, 2, 2},
                                         const Ints& pads_behind = {0, 0}) {
    const auto operation = unfinished_operation(y, pads_behind);
    EXPECT_EQ(cudnnBackendFinalize(operation), CUDNN_STATUS_SUCCESS);
    const auto graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    cudnnBackendSetAttribute(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
                             &handle_);
    give(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
    EXPECT_EQ(cudnnBackendFinalize(graph), CUDNN_STATUS_SUCCESS);
    const auto heuristic = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    give(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    cudnnBackendSetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    EXPECT_EQ(cudnnBackendFinalize(heuristic), CUDNN_STATUS_SUCCESS);
    cudnnBackendDescriptor_t made = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    int64_t count = 0;
    EXPECT_EQ(cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &made),
              CUDNN_STATUS_SUCCESS);
    return made;
  }
  cudnnBackendDescriptor_t unfinished_plan(cudnnBackendDescriptor_t configuration) {
    const auto made = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    cudnnBackendSetAttribute(made, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                             &handle_);
    give(made, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    return made;
  }
  cudnnStatus_t execute(cudnnBackendHeurMode_t mode, const Ints& ids, std::vector<void*> data,
                        void* workspace) {
    const auto plan = unfinished_plan(configuration(mode));
    EXPECT_EQ(cudnnBackendFinalize(plan), CUDNN_STATUS_SUCCESS);
    const auto pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
    cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                             std::ssize(data), data.data());
    cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                             &workspace);
    const cudnnStatus_t status = cudnnBackendFinalize(pack);
    return status != CUDNN_STATUS_SUCCESS ? status : cudnnBackendExecute(handle_, plan, pack);
  }
  cudnnStatus_t execute(const Ints& ids, std::vector<void*> data) {
    return execute(CUDNN_HEUR_MODE_A, ids, std::move(data), workspace_);
  }
  static void* behind(void* data, size_t bytes) { return static_cast<std::byte*>(data) + bytes; }

  cudaStream_t stream_ = nullptr;
  cudnnHandle_t handle_ = nullptr;
  void* x_ = nullptr;
  void* w_ = nullptr;
  void* y_ = nullptr;
  void* workspace_ = nullptr;
  std::vector<cudnnBackendDescriptor_t> made_;
};

using PlayedCudaDnnDeathTest = PlayedCudaDnn;

TEST_F(PlayedCudaDnn, DoesAConvolution) {
  EXPECT_EQ(execute({3, 1, 2}, {y_, x_, w_}), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(execute(CUDNN_HEUR_MODE_FALLBACK, {1, 2, 3}, {x_, w_, y_}, nullptr),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
}

TEST_F(PlayedCudaDnn, RefusesAttributesOfAnotherTypeNumberOrDescriptor) {
  const auto tensor = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const float number = 1;
  EXPECT_EQ(
      cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_FLOAT, 1, &number),
      CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
  EXPECT_EQ(set(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, {1, 2}), CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND);
  EXPECT_EQ(set(tensor, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {2}), CUDNN_STATUS_BAD_PARAM);
  const auto operation = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  EXPECT_EQ(give(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, convolution()),
            CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE);
}

TEST_F(PlayedCudaDnn, WantsDescriptorsFinalisedInOrder) {
  const auto fresh = unfinished_tensor(1, {1, 2, 3, 3});
  const auto operation = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  EXPECT_EQ(give(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, fresh),
            CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  EXPECT_EQ(cudnnBackendFinalize(operation), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnBackendFinalize(fresh), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(set(fresh, CUDNN_ATTR_TENSOR_UNIQUE_ID, {4}), CUDNN_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(cudnnBackendFinalize(fresh), CUDNN_STATUS_BAD_PARAM);
  int64_t count = 0;
  EXPECT_EQ(cudnnBackendGetAttribute(make(CUDNN_BACKEND_ENGINE_DESCRIPTOR),
                                     CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, 0,
                                     &count, nullptr),
            CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
}

TEST_F(PlayedCudaDnn, RefusesShapesThatMakeNoConvolution) {
  EXPECT_EQ(cudnnBackendFinalize(unfinished_operation({1, 1, 3, 2})),
            CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
}

TEST_F(PlayedCudaDnn, HasFewerEnginesForPadsThatDiffer) {
  const auto plan_by = [&](cudnnBackendHeurMode_t mode) {
    return cudnnBackendFinalize(unfinished_plan(configuration(mode, {1, 1, 3, 2}, {1, 0})));
  };
  EXPECT_EQ(plan_by(CUDNN_HEUR_MODE_A), CUDNN_STATUS_NOT_SUPPORTED_PADDING);
  EXPECT_EQ(plan_by(CUDNN_HEUR_MODE_FALLBACK), CUDNN_STATUS_SUCCESS);
}

TEST_F(PlayedCudaDnn, RefusesVariantPacksThatDoNotFit) {
  EXPECT_EQ(execute({1, 2, 2}, {x_, w_, y_}), CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES);
  EXPECT_EQ(execute({1, 2}, {x_, w_, y_}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(execute({1, 2, 4}, {x_, w_, y_}), CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(execute({1, 2, 3}, {x_, w_, nullptr}), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  EXPECT_EQ(execute({1, 2, 3}, {x_, behind(w_, 4), y_}), CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
  for (void* workspace : {static_cast<void*>(nullptr), behind(workspace_, 64)})
    EXPECT_EQ(execute(CUDNN_HEUR_MODE_A, {1, 2, 3}, {x_, w_, y_}, workspace),
              CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
}

TEST_F(PlayedCudaDnnDeathTest, DiesOfTensorsThatAreNotAllTheGpus) {
  EXPECT_DEATH(execute({1, 2, 3}, {behind(x_, 16), w_, y_}),
               "a tensor that is not all in memory that the GPU reads");
  alignas(16) std::array<float, 18> host{};
  EXPECT_DEATH(execute({1, 2, 3}, {host.data(), w_, y_}),
               "a tensor that is not all in memory that the GPU reads");
  EXPECT_DEATH(execute(CUDNN_HEUR_MODE_A, {1, 2, 3}, {x_, w_, y_}, behind(workspace_, 256)),
               "a workspace that is not all in memory");
}

TEST_F(PlayedCudaDnnDeathTest, DiesOfDescriptorsThatAreGoneTooEarly) {
  EXPECT_DEATH(
      {
        const auto plan = unfinished_plan(configuration(CUDNN_HEUR_MODE_A));
        cudnnBackendDestroyDescriptor(made_.front());
        cudnnBackendFinalize(plan);
      },
      "a descriptor is gone that another was given");
}

}  // namespace
}  // namespace kerf::tests
