// What a worker of another host and the scheduler say to each other of the run's files (store.h),
// as kStore and kStored.
//
// A worker's requests are answered in their order, each once. What it has asked for and has no
// answer of yet, as cost_of() counts it, stays within the window that kWelcome told it: that bounds
// what the scheduler holds for it. Encoded by wire.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace kerf::runtime {

enum class StoreWord : uint8_t {
  kOpen = 1,  // a file to read                       -> how many bytes it has
  kRead,      // bytes of it                          -> these
  kCreate,    // a file that is to appear as a whole  -> nothing, as to all that follow
  kExtend,    // one that grows, behind its first so many bytes
  kWrite,     // bytes at its end
  kSettle,    // to disk
  kCommit,    // it is whole
  kClose,     // the file is not used any more; without kCommit, nothing is left of one to appear
};

// Files are told apart by numbers that the worker gives them, and gives again once one is closed.
inline constexpr int32_t kMostStoreFiles = 256;  // open at a time
inline constexpr size_t kMostStorePath = 4096;
// In one message. Small, so that one comes from every worker well within the time after which a
// silent one is lost, were the network slow.
inline constexpr size_t kStorePiece = size_t{256} << 10;

// kStore.
struct StoreRequest {
  StoreWord word{};
  int32_t file = 0;
  uint64_t place = 0;      // in the file: of kRead, and kExtend
  uint32_t count = 0;      // bytes: of kRead
  std::string path = {};   // of kOpen, kCreate, kExtend
  std::string bytes = {};  // of kWrite

  template <class Archive>
  void serialize(Archive& archive) {
    archive(word, file, place, count, path, bytes);
  }
};

// kStored. A code of -1: it was done; of kNoSuchFile: there is nothing of that name; else
// ErrorCode.
inline constexpr int32_t kStoreDone = -1;
inline constexpr int32_t kNoSuchFile = -2;
struct StoreAnswer {
  int32_t file = 0;
  int32_t code = kStoreDone;
  uint64_t size = 0;         // of kOpen
  std::string bytes = {};    // of kRead: as many as were asked for
  std::string message = {};  // of a failure
  std::string where = {};

  template <class Archive>
  void serialize(Archive& archive) {
    archive(file, code, size, bytes, message, where);
  }
};

// Whoever closes a file does not wait for room: it costs nothing.
inline constexpr int64_t kLeastStoreCost = 256;  // of all else
inline int64_t cost_of(const StoreRequest& request) {
  if (request.word == StoreWord::kClose) return 0;
  return kLeastStoreCost + static_cast<int64_t>(request.path.size() + request.bytes.size()) +
         request.count;
}

// Bytes of answers that a worker may have without saying so, each with what keeping it takes: what
// it is sent meanwhile, and once more what it has and said so of on the way; and room for clocks
// and for the texts of failures.
inline int64_t most_unacknowledged(int64_t window) { return 3 * window + (int64_t{4} << 20); }

// Of each of so many workers: 64 MiB for all, or half a MiB for each of more than 128.
inline constexpr int64_t kStoreWindows = int64_t{64} << 20;
inline int64_t store_window(int workers) {
  constexpr int64_t kMost = int64_t{16} << 20;
  constexpr int64_t kLeast = int64_t{512} << 10;
  const int64_t even = kStoreWindows / (workers < 1 ? 1 : workers);
  return even > kMost ? kMost : even < kLeast ? kLeast : even;
}

}  // namespace kerf::runtime
