#include <algorithm>
#include <charconv>
#include <limits>

#include "ops/layout.h"

namespace kerf::ops {
namespace {

// Ascending order; empty ranges dropped; overlapping and adjacent ones merged.
std::vector<Range> merged(std::vector<Range> ranges) {
  std::erase_if(ranges, [](const Range& range) { return range.begin == range.end; });
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> result;
  for (const Range& range : ranges) {
    if (!result.empty() && range.begin <= result.back().end)
      result.back().end = std::max(result.back().end, range.end);
    else
      result.push_back(range);
  }
  return result;
}

// One range of people's spelling: "7" or "9-11".
class RangeParser {
 public:
  RangeParser(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  Range parse() const {
    const size_t first = text_.find_first_not_of(' ');
    if (first == std::string_view::npos) fail("an index is missing");
    const std::string_view body = text_.substr(first, text_.find_last_not_of(' ') + 1 - first);
    const size_t dash = body.find('-');
    const int64_t begin = number(body.substr(0, dash));
    const int64_t last = dash == std::string_view::npos ? begin : number(body.substr(dash + 1));
    if (last < begin) fail("the range is reversed");
    return {begin, last + 1};
  }

 private:
  int64_t number(std::string_view digits) const {
    // from_chars would take a sign; an index has none.
    if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos)
      fail("an index is a decimal number");
    int64_t value = 0;
    const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (fault != std::errc() || value == std::numeric_limits<int64_t>::max())
      fail("the index is too large");
    return value;
  }

  [[noreturn]] void fail(const char* reason) const {
    throw Error(ErrorCode::kUsage,
                format("\"{}\" is no index set: {} (write all, none, or 0-3,7,9-11)",
                       text_.substr(0, 60), reason),
                where_);
  }

  std::string_view text_;
  const std::string& where_;
};

}  // namespace

IndexSet IndexSet::none() {
  IndexSet set;
  set.hull_ = {};
  return set;
}

IndexSet IndexSet::range(int64_t begin, int64_t end) {
  KERF_CHECK(begin >= 0 && begin <= end, "the range [{}, {})", begin, end);
  if (begin == end) return none();
  IndexSet set;
  set.hull_ = {begin, end};
  return set;
}

IndexSet::IndexSet(std::vector<Range> ranges) {
  for (const Range& range : ranges)
    KERF_CHECK(range.begin >= 0 && range.begin <= range.end, "the range [{}, {})", range.begin,
               range.end);
  ranges = merged(std::move(ranges));
  hull_ = ranges.empty() ? Range{} : Range{ranges.front().begin, ranges.back().end};
  if (ranges.size() > 1) several_ = std::make_shared<const std::vector<Range>>(std::move(ranges));
}

IndexSet IndexSet::of(const std::vector<int64_t>& indices) {
  std::vector<Range> ranges;
  ranges.reserve(indices.size());
  for (const int64_t index : indices) {
    KERF_CHECK(index >= 0 && index < std::numeric_limits<int64_t>::max(), "the index {}", index);
    if (!ranges.empty() && ranges.back().end == index)
      ++ranges.back().end;
    else
      ranges.push_back({index, index + 1});
  }
  return IndexSet(std::move(ranges));
}

int64_t IndexSet::size(int64_t extent) const {
  if (is_all()) return extent;
  int64_t count = 0;
  for (const Range& range : ranges()) count += range.size();
  return count;
}

bool IndexSet::contains(int64_t index) const {
  if (is_all()) return index >= 0;
  const std::span<const Range> all = ranges();
  const auto after =
      std::upper_bound(all.begin(), all.end(), index,
                       [](int64_t value, const Range& range) { return value < range.begin; });
  return after != all.begin() && index < std::prev(after)->end;
}

bool IndexSet::contains(const IndexSet& other) const {
  if (is_all()) return true;
  if (other.is_all()) return false;
  if (is_one_range() && other.is_one_range())
    return hull_.begin <= other.hull_.begin && other.hull_.end <= hull_.end;
  return intersect(*this, other) == other;
}

std::vector<Range> IndexSet::ranges(int64_t extent) const {
  if (!is_all()) return {ranges().begin(), ranges().end()};
  KERF_CHECK(extent >= 0, "all of an axis whose extent is not known");
  return extent == 0 ? std::vector<Range>{} : std::vector<Range>{{0, extent}};
}

IndexSet IndexSet::normalized(int64_t extent) const {
  const bool everything = is_one_range() && hull_ == Range{0, extent};
  return everything ? all() : *this;
}

IndexSet intersect(const IndexSet& a, const IndexSet& b) {
  if (a.is_all()) return b;
  if (b.is_all()) return a;
  if (a.ranges().size() == 1 && b.ranges().size() == 1) {
    const Range& x = a.ranges().front();
    const Range& y = b.ranges().front();
    const int64_t begin = std::max(x.begin, y.begin);
    return IndexSet::range(begin, std::max(begin, std::min(x.end, y.end)));
  }
  std::vector<Range> both;
  auto x = a.ranges().begin();
  auto y = b.ranges().begin();
  while (x != a.ranges().end() && y != b.ranges().end()) {
    const Range common{std::max(x->begin, y->begin), std::min(x->end, y->end)};
    if (common.begin < common.end) both.push_back(common);
    x->end < y->end ? ++x : ++y;
  }
  return IndexSet(std::move(both));
}

IndexSet clip(const IndexSet& set, int64_t extent) {
  if (set.is_all() || set.empty() || set.ranges().back().end <= extent) return set;
  return intersect(set, IndexSet::range(0, extent));
}

int64_t clipped_size(const IndexSet& set, int64_t extent) {
  if (set.is_all()) return extent;
  int64_t count = 0;
  for (const Range& range : set.ranges())
    count += std::clamp<int64_t>(extent - range.begin, 0, range.size());
  return count;
}

IndexSet unite(const IndexSet& a, const IndexSet& b) {
  if (a.is_all() || b.is_all()) return IndexSet::all();
  std::vector<Range> either(a.ranges().begin(), a.ranges().end());
  either.insert(either.end(), b.ranges().begin(), b.ranges().end());
  return IndexSet(std::move(either));
}

IndexSet subtract(const IndexSet& a, const IndexSet& b, int64_t extent) {
  if (b.is_all()) return IndexSet::none();
  if (b.empty()) return a.normalized(extent);
  std::vector<Range> rest;
  auto cut = b.ranges().begin();
  for (const Range& range : a.ranges(extent)) {
    int64_t begin = range.begin;
    while (cut != b.ranges().end() && cut->end <= begin) ++cut;
    for (auto next = cut; next != b.ranges().end() && next->begin < range.end; ++next) {
      if (begin < next->begin) rest.push_back({begin, next->begin});
      begin = next->end;
    }
    if (begin < range.end) rest.push_back({begin, range.end});
  }
  return IndexSet(std::move(rest)).normalized(extent);
}

std::vector<IndexSet> split_evenly(int64_t extent, int parts) {
  KERF_CHECK(extent >= 0 && parts > 0, "{} indices over {} parts", extent, parts);
  std::vector<IndexSet> sets;
  sets.reserve(static_cast<size_t>(parts));
  int64_t begin = 0;
  for (int part = 0; part < parts; ++part) {
    const int64_t size = extent / parts + (part < extent % parts ? 1 : 0);
    sets.push_back(IndexSet::range(begin, begin + size).normalized(extent));
    begin += size;
  }
  return sets;
}

std::string to_string(const IndexSet& set) {
  if (set.is_all()) return "all";
  if (set.empty()) return "none";
  std::string text;
  for (const Range& range : set.ranges()) {
    if (!text.empty()) text += ',';
    text += std::to_string(range.begin);
    if (range.size() > 1) text += '-' + std::to_string(range.end - 1);
  }
  return text;
}

IndexSet parse_index_set(const std::string& text, const std::string& where) {
  if (text == "all") return IndexSet::all();
  if (text == "none") return IndexSet::none();
  std::vector<Range> ranges;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    ranges.push_back(RangeParser(std::string_view(text).substr(begin, end - begin), where).parse());
    begin = end + 1;
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].begin < ranges[i - 1].end)
      throw Error(ErrorCode::kUsage,
                  format("index {} is there twice; name each once", ranges[i].begin), where);
  }
  return IndexSet(std::move(ranges));
}

}  // namespace kerf::ops
