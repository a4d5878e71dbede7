#include "apps/main/node_list.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr size_t kMostDigits = 9;
constexpr int kMostBrackets = 8;  // of one name

class Reader {
 public:
  Reader(std::string_view text, const std::string& origin) : text_(text), origin_(origin) {}

  std::vector<std::string> read() const {
    std::vector<std::string> nodes;
    for (const std::string_view name : split(text_)) append(expanded(name, 0), nodes);
    return nodes;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorCode::kUsage, format("\"{}\": {}", text_.substr(0, 200), what), origin_);
  }

  void append(std::vector<std::string> more, std::vector<std::string>& all) const {
    if (all.size() + more.size() > kMostNodes) refuse(format("more than {} hosts", kMostNodes));
    std::ranges::move(more, std::back_inserter(all));
  }

  // At the commas outside of brackets.
  std::vector<std::string_view> split(std::string_view list) const {
    std::vector<std::string_view> parts;
    size_t begin = 0;
    bool within = false;
    for (size_t at = 0; at <= list.size(); ++at) {
      if (at < list.size() && list[at] == '[') within = true;
      if (at < list.size() && list[at] == ']') within = false;
      if (at < list.size() && (list[at] != ',' || within)) continue;
      parts.push_back(list.substr(begin, at - begin));
      if (parts.back().empty()) refuse("a name is empty");
      begin = at + 1;
    }
    return parts;
  }

  // Each number of its first brackets with all that follows.
  std::vector<std::string> expanded(std::string_view name, int brackets) const {
    const size_t open = name.find('[');
    const std::string head(name.substr(0, open));
    const auto is_of_names = [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
    };
    if (!std::ranges::all_of(head, is_of_names)) refuse("a name has other characters");
    if (open == std::string_view::npos) return {head};
    const size_t close = name.find(']', open);
    if (close == std::string_view::npos || brackets == kMostBrackets) refuse("brackets are open");
    const std::vector<std::string> tails = expanded(name.substr(close + 1), brackets + 1);
    std::vector<std::string> all;
    for (const std::string_view range : split(name.substr(open + 1, close - open - 1)))
      for (const std::string& number : numbers(range)) {
        std::vector<std::string> some;
        for (const std::string& tail : tails) some.push_back(format("{}{}{}", head, number, tail));
        append(std::move(some), all);
      }
    return all;
  }

  std::vector<std::string> numbers(std::string_view range) const {
    const size_t dash = range.find('-');
    const std::string_view first = range.substr(0, dash);
    const int begin = number(first);
    const int end = dash == std::string_view::npos ? begin : number(range.substr(dash + 1));
    if (end < begin || static_cast<size_t>(end - begin) >= kMostNodes)
      refuse(format("{} is no range", range));
    std::vector<std::string> all;
    for (int each = begin; each <= end; ++each)
      all.push_back(format("{:0{}}", each, first.starts_with('0') ? first.size() : 1));
    return all;
  }

  int number(std::string_view digits) const {
    int value = 0;
    const char* const end = digits.data() + digits.size();
    const auto [next, fault] = std::from_chars(digits.data(), end, value);
    if (fault != std::errc() || next != end || digits.size() > kMostDigits || value < 0)
      refuse(format("{} is no number", digits));
    return value;
  }

  const std::string_view text_;
  const std::string& origin_;
};

}  // namespace

std::vector<std::string> parse_nodes(std::string_view text, const std::string& origin) {
  return Reader(text, origin).read();
}

}  // namespace kerf::apps
