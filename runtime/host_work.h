// Work that the host's processor does on a device's memory, in the order of a stream.
//
//   launch(stream, [](float* y, const float* x) { y[0] += x[0]; }, memory(y, 1), memory(x, 1));
//
// What the work touches is declared, and whether it writes: a device translates the pointers to
// where the processor finds the memory, copies where there is no such place, and may check that
// whatever touches the same bytes is ordered. A pointer to const is read, any other is read and
// written, or overwritten(): then the function finds anything there, and leaves no byte as it was.
// Memory of the host that the function refers to by itself outlives the work.
//
// Threads: work may run on any thread, once, after launch() has returned or before.
#pragma once

#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>

#include "runtime/device.h"

namespace kerf::runtime {

// Memory that work touches; null where there is none.
template <class T>
struct Memory {
  T* data = nullptr;
  size_t bytes = 0;
  bool overwritten = false;
};

template <class T>
Memory<T> memory(T* data, size_t count) {
  return {data, count * sizeof(T)};
}
template <class T>
Memory<T> overwritten(T* data, size_t count) {
  return {data, count * sizeof(T), true};
}

// Is shown all memory of a piece of work, and says where the processor finds it.
class MemoryVisitor {
 public:
  virtual ~MemoryVisitor() = default;

  template <class T>
  void visit(Memory<T>& each) {
    if (each.data == nullptr || each.bytes == 0) return;
    auto* data = const_cast<std::remove_const_t<T>*>(each.data);
    auto* bytes = reinterpret_cast<std::byte*>(data);
    each.data =
        reinterpret_cast<T*>(each.overwritten ? find_overwritten(bytes, each.bytes)
                                              : find(bytes, each.bytes, !std::is_const_v<T>));
  }

 protected:
  virtual std::byte* find(std::byte* data, size_t bytes, bool written) = 0;
  virtual std::byte* find_overwritten(std::byte* data, size_t bytes) {
    return find(data, bytes, true);
  }
};

// Work that waits for its turn: refers to nothing that may be gone when that comes.
class QueuedWork {
 public:
  virtual ~QueuedWork() = default;
  // Every piece of memory once, before run().
  virtual void show(MemoryVisitor& visitor) = 0;
  virtual void run() = 0;
};

class HostWork {
 public:
  virtual ~HostWork() = default;
  // Here and now, with the pointers that it was made with.
  virtual void run() = 0;
  virtual std::unique_ptr<QueuedWork> queued() const = 0;
};

// A function of pointers.
template <class Function, class... T>
class FunctionWork final : public HostWork, public QueuedWork {
 public:
  explicit FunctionWork(Function function, Memory<T>... memory)
      : function_(std::move(function)), memory_(memory...) {}

  void run() override {
    std::apply([&](auto&... each) { function_(each.data...); }, memory_);
  }
  std::unique_ptr<QueuedWork> queued() const override {
    return std::make_unique<FunctionWork>(*this);
  }
  void show(MemoryVisitor& visitor) override {
    std::apply([&](auto&... each) { (visitor.visit(each), ...); }, memory_);
  }

 private:
  Function function_;
  std::tuple<Memory<T>...> memory_;
};

template <class Function, class... T>
void launch(Stream& stream, Function function, Memory<T>... memory) {
  FunctionWork work(std::move(function), memory...);
  stream.launch(work);
}

}  // namespace kerf::runtime
