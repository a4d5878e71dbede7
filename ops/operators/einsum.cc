#include "ops/operators/einsum.h"

#include <algorithm>
#include <map>

#include "ops/operators/indices.h"
#include "ops/product_cost.h"

namespace kerf::ops {
namespace {

// A letter, or a further axis counted from the last: kFurther, kFurther + 1, ...
using Term = std::vector<int>;
constexpr int kFurther = 256;

[[noreturn]] void refuse_equation(const std::string& equation, const std::string& why) {
  throw Error(ErrorCode::kUsage, format("Einsum cannot compute '{}': {}", equation, why));
}

// What stands between commas. `rank` is the operand's; of an output -1, which has `further` axes.
Term parse_term(const std::string& equation, const std::string& text, int rank, int further) {
  Term term;
  const size_t dots = text.find("...");
  const auto letters = static_cast<int>(text.size()) - (dots == std::string::npos ? 0 : 3);
  const int count = rank >= 0 ? rank - letters : further;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i == dots) {
      for (int axis = count; axis-- > 0;) term.push_back(kFurther + axis);
      i += 2;
    } else if ((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z')) {
      term.push_back(text[i]);
    } else {
      refuse_equation(equation, format("'{}' is no letter", text[i]));
    }
  }
  if (count < 0 || (rank >= 0 && static_cast<int>(term.size()) != rank))
    refuse_equation(equation, format("'{}' does not name the {} axes of its operand", text, rank));
  return term;
}

// The output's term where the equation does not say it.
Term implied_output(const std::vector<Term>& inputs) {
  std::map<int, int> uses;
  for (const Term& term : inputs)
    for (const int letter : term) ++uses[letter];
  Term output;
  for (auto use = uses.rbegin(); use != uses.rend() && use->first >= kFurther; ++use)
    output.push_back(use->first);
  for (const auto& [letter, count] : uses)
    if (letter < kFurther && count == 1) output.push_back(letter);
  return output;
}

// Of the inputs, then of the output.
std::vector<Term> parse_equation(std::string equation, const std::vector<Operand>& inputs) {
  std::erase(equation, ' ');
  const size_t arrow = equation.find("->");
  const std::string left = equation.substr(0, arrow);
  std::vector<Term> terms;
  int further = 0;
  for (size_t begin = 0; begin <= left.size();) {
    const size_t end = std::min(left.find(',', begin), left.size());
    if (terms.size() == inputs.size()) refuse_equation(equation, "it has more terms than operands");
    const int rank = inputs[terms.size()].spec.shape.rank();
    terms.push_back(parse_term(equation, left.substr(begin, end - begin), rank, 0));
    for (const int letter : terms.back()) further = std::max(further, letter - kFurther + 1);
    begin = end + 1;
  }
  if (terms.size() != inputs.size()) refuse_equation(equation, "it has fewer terms than operands");
  terms.push_back(arrow == std::string::npos
                      ? implied_output(terms)
                      : parse_term(equation, equation.substr(arrow + 2), -1, further));
  if (arrow != std::string::npos && further > 0 && equation.find("...", arrow) == std::string::npos)
    refuse_equation(equation, "the output lacks '...'; name by letters what is to be summed");
  Term output = terms.back();
  std::sort(output.begin(), output.end());
  if (std::adjacent_find(output.begin(), output.end()) != output.end())
    refuse_equation(equation, "the output names an axis twice");
  return terms;
}

}  // namespace

Einsum::Einsum(const NodeFacts& facts) : BoundOperator("Einsum", facts) {
  const std::string equation = attribute_string(facts.attributes, "equation", "");
  if (inputs().size() > 2)
    refuse_equation(equation, "it has more than two operands; multiply two at a time");
  for (const Operand& operand : inputs()) want_float32("Einsum", operand, "all inputs");
  const std::vector<Term> terms = parse_equation(equation, inputs());
  std::map<int, int64_t> extents;
  for (size_t i = 0; i < inputs().size(); ++i)
    for (size_t a = 0; a < terms[i].size(); ++a) {
      const int64_t own = shape(static_cast<int>(i))[static_cast<int>(a)];
      int64_t& extent = extents.try_emplace(terms[i][a], 1).first->second;
      if (extent != own && extent != 1 && own != 1)
        refuse_equation(equation, format("an axis has {} and {} indices", extent, own));
      if (extent == 1) extent = own;
    }
  if (extents.size() > Shape::kMaxRank)
    refuse_equation(equation, format("it has {} letters and further axes, more than {}; multiply "
                                     "over fewer axes at a time, by Reshape",
                                     extents.size(), Shape::kMaxRank));
  std::map<int, int> axis_of;
  const auto add_axis = [&](int letter, AxisKind kind) {
    const auto found = extents.find(letter);
    if (found == extents.end()) refuse_equation(equation, "the output names an axis of no operand");
    if (!axis_of.try_emplace(letter, static_cast<int>(space_.axes.size())).second) return;
    if (found->second < 0 && kind == AxisKind::kSummed)
      refuse_equation(equation, "it sums over the batch, of which a step has micro-batches");
    const std::string name = letter < kFurther ? std::string(1, static_cast<char>(letter))
                                               : format("further axis {}", letter - kFurther);
    space_.axes.push_back({found->second < 0 ? AxisKind::kSample : kind,
                           found->second < 0 ? "samples" : name, found->second});
  };
  std::vector<int64_t> output;
  for (const int letter : terms.back()) {
    add_axis(letter, letter == terms.back().back() ? AxisKind::kFeature : AxisKind::kSpace);
    output.push_back(extents.at(letter));
  }
  for (const auto& [letter, extent] : extents) add_axis(letter, AxisKind::kSummed);
  outputs_ = {{DType::kFloat32, Shape(output)}};
  for (size_t i = 0; i < terms.size(); ++i) {
    const Shape& own = i < inputs().size() ? shape(static_cast<int>(i)) : outputs_[0].shape;
    std::vector<int> letters;
    std::vector<std::vector<int>> map;
    for (size_t a = 0; a < terms[i].size(); ++a) {
      const int axis = axis_of.at(terms[i][a]);
      const bool repeated = own[static_cast<int>(a)] == 1 && extents.at(terms[i][a]) != 1;
      letters.push_back(repeated ? -1 : axis);
      map.push_back(repeated ? std::vector<int>{} : std::vector<int>{axis});
      if (!repeated && std::count(letters.begin(), letters.end(), axis) > 1)
        space_.axes[static_cast<size_t>(axis)].undivided = "it runs along a diagonal";
    }
    letters_.push_back(std::move(letters));
    (i < inputs().size() ? space_.inputs : space_.outputs).push_back(operand_axes(map));
  }
}

Cost Einsum::cost(const LocalSpecs& local) const {
  std::vector<int64_t> extents(space_.axes.size(), 1);
  double bytes = bytes_of(local.outputs[0]);
  for (size_t i = 0; i < local.inputs.size(); ++i) {
    bytes += bytes_of(local.inputs[i]);
    for (size_t a = 0; a < letters_[i].size(); ++a)
      if (letters_[i][a] >= 0)
        extents[static_cast<size_t>(letters_[i][a])] = local.inputs[i].shape[static_cast<int>(a)];
  }
  double flops = local.inputs.size() == 2 ? 2 : 1;
  for (const int64_t extent : extents) flops *= static_cast<double>(extent);
  return product_cost(*this, flops, bytes);
}

BackwardReads Einsum::backward_reads() const {
  return inputs().size() == 2 ? product_reads(*this) : BackwardReads();
}

OperatorDefinitions define_einsum() {
  return {{.name = "Einsum",
           .inputs = {{"Inputs", FormalOperand::Count::kVariadic}},
           .outputs = {{"Output"}},
           .attributes = {{"equation", AttributeType::kString}},
           .bind = bind_as<Einsum>,
           .first_opset = 12}};
}

}  // namespace kerf::ops
