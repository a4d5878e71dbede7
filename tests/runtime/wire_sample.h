// A type with everything that the wire carries, and random values of it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace kerf::runtime {

enum class Colour : uint16_t { kRed = 1, kGreen, kBlue };

struct Sample {
  bool flag = false;
  int8_t small = 0;
  uint64_t large = 0;
  float f = 0;
  double d = 0;
  Colour colour = Colour::kRed;
  std::string text;
  std::vector<float> floats;
  std::vector<bool> flags;
  std::vector<std::string> names;
  std::vector<Colour> colours;
  std::map<std::string, std::vector<int32_t>> table;
  std::pair<int32_t, std::string> both;
  std::array<int32_t, 4> tag{};
  std::optional<std::string> maybe;
  std::vector<Sample> children;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(flag, small, large, f, d, colour, text, floats, flags, names, colours, table, both, tag,
            maybe, children);
  }
  bool operator==(const Sample&) const = default;
};

class SampleMaker {
 public:
  explicit SampleMaker(uint64_t seed) : random_(seed) {}

  Sample make(int depth = 2) {
    Sample sample;
    sample.flag = below(2) == 1;
    sample.small = static_cast<int8_t>(random_());
    sample.large = random_();
    sample.f = static_cast<float>(below(1000)) / 7;
    sample.d = static_cast<double>(below(1000)) / 3;
    sample.colour = static_cast<Colour>(1 + below(3));
    sample.text = text();
    for (uint64_t n = below(5); n > 0; --n) sample.floats.push_back(sample.f + 1);
    for (uint64_t n = below(9); n > 0; --n) sample.flags.push_back(below(2) == 1);
    for (uint64_t n = below(4); n > 0; --n) sample.names.push_back(text());
    for (uint64_t n = below(4); n > 0; --n) sample.colours.push_back(Colour::kBlue);
    for (uint64_t n = below(4); n > 0; --n) sample.table[text()].resize(below(4), 5);
    sample.both = {static_cast<int32_t>(random_()), text()};
    for (int32_t& value : sample.tag) value = static_cast<int32_t>(random_());
    if (below(2) == 1) sample.maybe = text();
    if (depth > 0)
      for (uint64_t n = below(3); n > 0; --n) sample.children.push_back(make(depth - 1));
    return sample;
  }
  uint64_t below(uint64_t bound) { return random_() % bound; }
  std::mt19937_64& random() { return random_; }
  std::string text() {
    std::string made(below(12), '\0');
    for (char& letter : made) letter = static_cast<char>(random_());
    return made;
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace kerf::runtime
