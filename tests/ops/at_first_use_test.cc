// Libraries of CUDA's are loaded when something is first asked of them, with or without a GPU.
#include <cublasLt.h>
#include <cudnn_backend.h>
#include <gmock/gmock.h>

#include <fstream>

#include "ops/cuda/at_first_use/library.h"
#include "runtime/error.h"

namespace kerf::ops::cuda {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string mapped_files() {
  std::ifstream maps("/proc/self/maps");
  return {std::istreambuf_iterator<char>(maps), {}};
}

std::string said_by(const auto& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    return error.what();
  }
  return {};
}

TEST(LibraryAtFirstUse, IsNotThereBeforeItIsCalled) {
  EXPECT_THAT(mapped_files(), Not(AnyOf(HasSubstr("libcublasLt"), HasSubstr("libcudnn"))));
  EXPECT_STREQ(cublasLtGetStatusString(CUBLAS_STATUS_SUCCESS), "success");
  EXPECT_THAT(mapped_files(), AllOf(HasSubstr("libcublasLt"), Not(HasSubstr("libcudnn"))));
}

// As far as it goes without a GPU: what is called is what was declared.
TEST(LibraryAtFirstUse, HasCudnnsGraphInterface) {
  EXPECT_STREQ(cudnnGetErrorString(CUDNN_STATUS_SUCCESS), "CUDNN_STATUS_SUCCESS");
  EXPECT_THAT(mapped_files(), HasSubstr("libcudnn.so.9"));
  cudnnBackendDescriptor_t tensor = nullptr;
  ASSERT_EQ(cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &tensor),
            CUDNN_STATUS_SUCCESS);
  const int64_t number = 1;
  EXPECT_EQ(
      cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &number),
      CUDNN_STATUS_SUCCESS);
  EXPECT_NE(
      cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_FLOAT, 1, &number),
      CUDNN_STATUS_SUCCESS);
  EXPECT_NE(cudnnBackendFinalize(tensor), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnBackendDestroyDescriptor(tensor), CUDNN_STATUS_SUCCESS);
}

TEST(LibraryAtFirstUse, SaysWhatIsMissingAndWhatToDo) {
  EXPECT_THAT(said_by([] { Library("libnosuch.so.1", "/nowhere/libnosuch.so", "such a thing"); }),
              AllOf(HasSubstr("libnosuch.so.1 cannot be loaded"), HasSubstr("install such a thing"),
                    HasSubstr("LD_LIBRARY_PATH"), HasSubstr("--device cpu")));
  const Library c("libc.so.6", "", "C");
  EXPECT_NE(c.find("malloc"), nullptr);
  EXPECT_THAT(said_by([&] { c.find("no_such_function"); }),
              AllOf(HasSubstr("libc.so.6"), HasSubstr("no_such_function")));
}

}  // namespace
}  // namespace kerf::ops::cuda
