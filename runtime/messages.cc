#include "runtime/messages.h"

#include "runtime/wire.h"

namespace kerf::runtime {
namespace {

constexpr size_t kBatchBytes = size_t{256} << 10;
constexpr size_t kLengthBytes = 4;  // before each item, as wire.h writes it

}  // namespace

ControlMessage clock_answer(const Report& report) {
  return {ControlType::kClock,
          encode(ClockAnswer{.sent_ns = report.sent_ns, .scheduler_ns = now_ns()})};
}

std::vector<std::string> encode_batches(std::vector<std::string> items) {
  std::vector<std::string> payloads;
  std::vector<std::string> batch;
  size_t bytes = 0;
  for (auto& item : items) {
    if (!batch.empty() && bytes + kLengthBytes + item.size() > kBatchBytes) {
      payloads.push_back(encode(batch));
      batch.clear();
      bytes = 0;
    }
    bytes += kLengthBytes + item.size();
    batch.push_back(std::move(item));
  }
  if (!batch.empty()) payloads.push_back(encode(batch));
  return payloads;
}

}  // namespace kerf::runtime
