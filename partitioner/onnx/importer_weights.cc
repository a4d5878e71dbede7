// Which constants are weights: by where they stand, what they hold, and what a program said.
#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/name_pattern.h"
#include "partitioner/onnx/importer.h"

namespace kerf::partitioner::onnx {
namespace {

using ops::DType;

constexpr size_t kPieceOfMask = size_t{64} << 10;  // numbers
constexpr float kHides = -1e4F;                    // this and less leaves nothing of a score

// The numbers from this one on, some.
std::vector<float> piece_of(const Fixed& fixed, size_t first, Budget& budget) {
  const auto count = static_cast<size_t>(fixed.spec.shape.elements());
  std::vector<float> piece(std::min(kPieceOfMask, count - first));
  budget.look_at(piece.size() * sizeof(float));
  fixed.contents->read(first * sizeof(float), std::as_writable_bytes(std::span(piece)));
  return piece;
}

// What hides some of the numbers that it is added to or multiplied with: of zeros, ones and large
// negative numbers, and not of one of zero and one only.
bool is_mask(const Fixed& fixed, Budget& budget) {
  if (fixed.contents == nullptr) return false;
  const auto count = static_cast<size_t>(fixed.spec.shape.elements());
  bool zeros = false;
  bool ones = false;
  bool hides = false;
  for (size_t first = 0; first < count; first += kPieceOfMask) {
    const std::vector<float> piece = piece_of(fixed, first, budget);
    for (const float number : piece) {
      zeros = zeros || number == 0;
      ones = ones || number == 1;
      hides = hides || number <= kHides;
      if (number != 0 && number != 1 && !(number <= kHides)) return false;
    }
  }
  return hides || (zeros && ones);
}

// Sines and cosines of positions, which programs have as buffers: from -1 to 1, of which those of
// position 0, the first row, are 0 and 1 only.
bool are_angles(const Fixed& fixed, Budget& budget) {
  const int rank = fixed.spec.shape.rank();
  if (fixed.contents == nullptr || rank < 2) return false;
  const auto count = static_cast<size_t>(fixed.spec.shape.elements());
  const auto row = static_cast<size_t>(fixed.spec.shape[rank - 1]);
  if (row < 2 || count <= row) return false;
  bool others = false;
  for (size_t first = 0; first < count; first += kPieceOfMask) {
    const std::vector<float> piece = piece_of(fixed, first, budget);
    for (size_t i = 0; i < piece.size(); ++i) {
      const bool whole = piece[i] == 0 || piece[i] == 1;
      if (!(std::abs(piece[i]) <= 1) || (first + i < row && !whole)) return false;
      others = others || !whole;
    }
  }
  return others;
}

}  // namespace

// By what it is, wherever it stands. One number is a weight in the place of one only, as the bias
// of a layer with one output is, or where the file says that it is a module's: else it may be any
// number of a formula.
bool Importer::may_be_weight(const Fixed& fixed) const {
  const int64_t numbers = fixed.spec.shape.elements();
  if (fixed.spec.dtype != DType::kFloat32 || numbers == 0) return false;
  if (numbers > 1) return true;
  const bool begins_anew =
      fixed.contents == nullptr && fixed.initializer.kind != ops::Initializer::Kind::kConstant;
  if (begins_anew) return true;  // as a head has it
  const std::string& origin = fixed.origin();
  if (!graph_.torch.empty() && parameter_in_torch(fixed).value_or(false)) return true;
  if (graph_.torch.empty() && graph_.by_torch && is_torch_name(origin)) return true;
  return fixed.spec.shape.rank() > 0 &&
         (weights_.operands.contains(fixed.name) || weights_.operands.contains(origin));
}

// Of a name that the file has: names of what weights are made of stand for it, too. Where the file
// says what was a parameter in the program, that goes before what the place says.
bool Importer::is_placed(const std::string& name, const Fixed& fixed) {
  const auto& [operands, shifts, tables, joined, beside, literals] = weights_;
  const auto in = [&](const std::set<std::string>& places) {
    return places.contains(name) || places.contains(fixed.origin());
  };
  if (!graph_.torch.empty()) {
    const auto was = parameter_in_torch(fixed);
    if (!was) return in(operands);
    if (!*was || in(operands) || in(shifts)) return *was;
    return (in(joined) || in(beside)) && !is_picked(fixed);
  }
  if (graph_.by_torch && in(literals)) return false;  // its weights are initializers
  if (in(operands)) return true;
  if (!in(shifts) && !(in(joined) && is_torch_name(fixed.origin()))) return false;
  return !is_mask(fixed, budget_) && !are_angles(fixed, budget_);
}

// Whether it was a parameter, or was computed of one; nothing where it is not said.
std::optional<bool> Importer::parameter_in_torch(const Fixed& fixed) const {
  std::vector<std::string> names{fixed.name, fixed.origin()};
  if (fixed.stored != nullptr)
    for (const StoredTensor& each : fixed.stored->tensors) names.push_back(each.name);
  std::optional<bool> was;
  const auto say = [&](size_t place) {
    was = was.value_or(false) || graph_.torch[place].parameter;
  };
  for (const std::string& name : names) {
    if (const auto found = torch_places_.find(name); found != torch_places_.end())
      say(found->second);
    if (const auto computed = graph_.computed.find(name); computed != graph_.computed.end()) {
      was = was.value_or(false);
      for (const size_t each : computed->second.tensors) say(each);
    }
  }
  return was;
}

// Whether the exporter computed it of more than a weight, as it picks rows of a table: numbers that
// were one in the program may be several.
bool Importer::is_picked(const Fixed& fixed) const {
  const auto computed = graph_.computed.find(fixed.origin());
  return computed != graph_.computed.end() && !computed->second.only;
}

// Not made by an exporter, as those of constants and of what it computed are.
bool Importer::is_torch_name(const std::string& name) const {
  if (!is_in_file(name) || name.find_first_of(":/ ") != std::string::npos) return false;
  const bool dotted = name.find('.') != std::string::npos;
  return !name.starts_with("val_") && !name.starts_with('_') &&
         name.find("._") == std::string::npos && name.find("lifted_tensor") == std::string::npos &&
         (dotted || (says_modules_ && name.find_first_not_of("0123456789") != std::string::npos));
}

bool Importer::fits(const Fixed& fixed, const std::vector<std::string>& patterns) {
  std::vector<std::string> names{fixed.name, fixed.origin()};
  if (fixed.stored != nullptr)
    for (const StoredTensor& each : fixed.stored->tensors) names.push_back(each.name);
  bool any = false;
  for (const std::string& pattern : patterns) {
    const bool one = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return ops::fits_pattern(name, pattern);
    });
    if (one) fitting_.insert(pattern);
    any = any || one;
  }
  return any;
}

bool Importer::is_trained(const std::string& name, const Fixed& fixed) {
  const bool frozen = fits(fixed, options_.freeze);
  const bool asked = fits(fixed, options_.train);
  if (fixed.spec.dtype != DType::kFloat32 || states_.contains(name) || frozen) return false;
  return asked || (may_be_weight(fixed) && is_placed(name, fixed));
}

}  // namespace kerf::partitioner::onnx
