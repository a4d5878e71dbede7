#include "schedmp/training/memory.h"

#include "partitioner/memory.h"
#include "runtime/error.h"

namespace kerf::schedmp {

void GrantedDevice::grant(std::byte* memory, int64_t bytes) {
  KERF_CHECK(live_ == 0, "a kernel keeps its workspace");
  memory_ = memory;
  granted_ = static_cast<size_t>(bytes);
  used_ = 0;
}

runtime::Buffer GrantedDevice::allocate(size_t bytes) {
  if (bytes == 0) return {};
  KERF_CHECK(used_ + bytes <= granted_, "a kernel takes {} bytes of workspace after {}, granted {}",
             bytes, used_, granted_);
  runtime::Buffer buffer(this, memory_ + used_, bytes);
  used_ += static_cast<size_t>(partitioner::whole_blocks(static_cast<int64_t>(bytes)));
  ++live_;
  return buffer;
}

void GrantedDevice::release(void* /*data*/, size_t /*bytes*/) noexcept {
  if (--live_ == 0) used_ = 0;
}

}  // namespace kerf::schedmp
