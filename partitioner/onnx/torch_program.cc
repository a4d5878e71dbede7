#include "partitioner/onnx/torch_program.h"

#include <cctype>
#include <set>
#include <sstream>
#include <string_view>

namespace kerf::partitioner::onnx {
namespace {

constexpr size_t kLongestName = 512;  // which is kept wherever the tensor is read

}  // namespace

TorchPlaces read_signature(const std::string& text, std::vector<TorchTensor>& tensors) {
  constexpr std::string_view kTarget = " target='";
  TorchPlaces places;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && line != "# outputs";) {
    const size_t colon = line.find(": ");
    const size_t target = line.find(kTarget);
    if (colon == std::string::npos || target == std::string::npos || target < colon) continue;
    const std::string kind = line.substr(colon + 2, target - colon - 2);
    const size_t begin = target + kTarget.size();
    const size_t end = line.find('\'', begin);
    if (end == std::string::npos || end - begin > kLongestName ||
        !places.emplace(line.substr(0, colon), tensors.size()).second)
      continue;
    const bool parameter = kind == "PARAMETER";
    const bool saved =
        parameter || (kind == "BUFFER" && !line.substr(end + 1).ends_with("persistent=False"));
    tensors.push_back({line.substr(begin, end - begin), parameter, saved});
  }
  return places;
}

TorchCall read_call(const std::string& text, const TorchPlaces& places) {
  const auto word_at = [&](size_t begin) {
    size_t end = begin;
    while (end < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_'))
      ++end;
    return text.substr(begin, end - begin);
  };
  TorchCall call;
  if (!text.starts_with('%')) return call;
  call.name = word_at(1);
  std::set<size_t> seen;
  for (size_t at = text.find('%', 1); at != std::string::npos; at = text.find('%', at + 1)) {
    const auto found = places.find(word_at(at + 1));
    if (found != places.end() && seen.insert(found->second).second)
      call.reads.push_back(found->second);
  }
  return call;
}

std::vector<std::string> read_list(const std::string& text) {
  std::vector<std::string> texts;
  for (size_t begin = text.find('\''); begin != std::string::npos;) {
    const size_t end = text.find('\'', begin + 1);
    if (end == std::string::npos) break;
    texts.push_back(text.substr(begin + 1, end - begin - 1));
    begin = text.find('\'', end + 1);
  }
  return texts;
}

}  // namespace kerf::partitioner::onnx
