// A function of one number gives the same bits wherever the number stands: in a whole vector, in
// the rest of a row, alone.
#include <gtest/gtest.h>

#include <bit>

#include "ops/elementwise.h"
#include "tests/ops/operator_values.h"

namespace kerf::ops {
namespace {

constexpr int64_t kCounts[] = {1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 72, 100, 127, 128, 129, 193};

class ElementwisePlaces : public OperatorValues {
 protected:
  static void expect_one_answer(const HostTensor& found, uint32_t& answer, const char* what) {
    for (size_t i = 0; i < found.floats.size(); ++i) {
      const auto bits = std::bit_cast<uint32_t>(found.floats[i]);
      if (found.floats.size() == 1) answer = bits;
      ASSERT_EQ(bits, answer) << what << " at place " << i << " of " << found.floats.size();
    }
  }

  template <class Entry>
  void expect_same_everywhere(const Entry& entry, float x) {
    Attributes attributes;
    const std::string choice(entry.choice.attribute);
    if (!choice.empty()) attributes[choice] = std::string(entry.choice.value);
    uint32_t answer = 0;
    uint32_t slope = 0;
    for (const int64_t count : kCounts) {
      const HostTensor same = floats({count}, std::vector<float>(static_cast<size_t>(count), x));
      expect_one_answer(forward(entry.name, attributes, {same}), answer, "answer");
      if constexpr (!std::is_same_v<std::remove_cvref_t<decltype(entry.derivative)>, NoDerivative>)
        expect_one_answer(gradient(entry.name, attributes, {same}, same), slope, "gradient");
    }
  }
};

TEST_F(ElementwisePlaces, OfANumberChangeNoBit) {
  std::apply(
      [&](const auto&... entry) {
        const auto ask = [&](const auto& one) {
          if (!takes(one.types, DType::kFloat32) || one.flops == 1) return;
          for (const float x : {0.7F, 1.3F, -2.9F}) {
            SCOPED_TRACE(testing::Message() << one.name << " of " << x);
            expect_same_everywhere(one, x);
          }
        };
        (ask(entry), ...);
      },
      kElementwise);
}

}  // namespace
}  // namespace kerf::ops
