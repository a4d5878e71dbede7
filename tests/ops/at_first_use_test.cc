// Libraries of CUDA's are loaded when something is first asked of them, with or without a GPU.
#include <cublasLt.h>
#include <gmock/gmock.h>

#include <fstream>

#include "ops/cuda/at_first_use/library.h"
#include "runtime/error.h"

namespace kerf::ops::cuda {
namespace {

using ::testing::AllOf;
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
  EXPECT_THAT(mapped_files(), Not(HasSubstr("libcublasLt")));
  EXPECT_STREQ(cublasLtGetStatusString(CUBLAS_STATUS_SUCCESS), "success");
  EXPECT_THAT(mapped_files(), HasSubstr("libcublasLt"));
}

TEST(LibraryAtFirstUse, SaysWhatIsMissingAndWhatToDo) {
  EXPECT_THAT(said_by([] { Library("libnosuch.so.1", "/nowhere/libnosuch.so"); }),
              AllOf(HasSubstr("libnosuch.so.1 cannot be loaded"), HasSubstr("LD_LIBRARY_PATH"),
                    HasSubstr("--device cpu")));
  const Library c("libc.so.6", "");
  EXPECT_NE(c.find("malloc"), nullptr);
  EXPECT_THAT(said_by([&] { c.find("no_such_function"); }),
              AllOf(HasSubstr("libc.so.6"), HasSubstr("no_such_function")));
}

}  // namespace
}  // namespace kerf::ops::cuda
