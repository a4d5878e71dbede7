#include "tests/support/allocation_meter.h"

#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

thread_local size_t allocated = 0;

// Where a library's code lies; empty if it is not loaded.
struct Code {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

int find_onednn(dl_phdr_info* library, size_t, void* found) {
  if (library->dlpi_name == nullptr || std::strstr(library->dlpi_name, "libdnnl") == nullptr)
    return 0;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const auto& segment = library->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const uintptr_t begin = library->dlpi_addr + segment.p_vaddr;
    *static_cast<Code*>(found) = {begin, begin + segment.p_memsz};
  }
  return 1;
}

void count(size_t bytes, const void* caller) {
  static const Code onednn = [] {
    Code code;
    dl_iterate_phdr(find_onednn, &code);
    return code;
  }();
  const auto at = reinterpret_cast<uintptr_t>(caller);
  if (at < onednn.begin || at >= onednn.end) allocated += bytes;
}

void* take(size_t bytes) { return std::malloc(bytes == 0 ? 1 : bytes); }

}  // namespace

namespace kerf::tests {

size_t allocated_bytes() { return allocated; }

}  // namespace kerf::tests

void* operator new(size_t bytes) {
  count(bytes, __builtin_return_address(0));
  if (void* memory = take(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new[](size_t bytes) {
  count(bytes, __builtin_return_address(0));
  if (void* memory = take(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  count(bytes, __builtin_return_address(0));
  return take(bytes);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  count(bytes, __builtin_return_address(0));
  return take(bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
