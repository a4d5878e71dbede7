// Texts made to fit.
#include "partitioner/fitted_text.h"

#include <gmock/gmock.h>

namespace kerf::partitioner {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Elided, KeepsWhatFitsAndElseTheEnd) {
  EXPECT_EQ(elided("conv1", 8), "conv1");
  EXPECT_EQ(elided("12345678", 8), "12345678");
  EXPECT_EQ(elided("123456789", 8), "123..789");
  EXPECT_EQ(elided("features.denseblock1.denselayer2.conv1", 22), "fea..denselayer2.conv1");
}

// Neither half a character nor more bytes than asked for.
TEST(Elided, CutsBetweenCharacters) {
  const std::string text = "äöüÄÖÜßéèêëïîôû";
  for (size_t most = 8; most < text.size(); ++most) {
    const std::string shown = elided(text, most);
    EXPECT_LE(shown.size(), most);
    const size_t dots = shown.find("..");
    ASSERT_NE(dots, std::string::npos);
    EXPECT_EQ(dots % 2, 0U) << shown;
    EXPECT_EQ((shown.size() - dots) % 2, 0U) << shown;
  }
}

TEST(Wrapped, BreaksAtBlanks) {
  EXPECT_THAT(wrapped("", 10), IsEmpty());
  EXPECT_THAT(wrapped("bridge -> concat", 16), ElementsAre("bridge -> concat"));
  EXPECT_THAT(wrapped("slice -> bridge -> concat", 19),
              ElementsAre("slice -> bridge ->", "concat"));
  EXPECT_THAT(wrapped("a longer-than-that b", 4), ElementsAre("a", "longer-than-that", "b"));
}

}  // namespace
}  // namespace kerf::partitioner
