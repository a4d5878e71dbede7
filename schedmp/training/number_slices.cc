#include "schedmp/training/number_slices.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "ops/pack.h"
#include "runtime/error.h"
#include "schedmp/training/weight_slices.h"

namespace kerf::schedmp {

namespace {

ops::ValueSpec count_spec() { return {ops::DType::kInt64, {}}; }

// Divides a range of elements along one axis after another, the slowest first.
class Division {
 public:
  explicit Division(const ops::Shape& extents) : extents_(extents) {}

  std::vector<std::vector<ops::Range>> of(ops::Range elements) {
    if (elements.size() > 0) divide(elements);
    return std::move(found_);
  }

 private:
  void divide(ops::Range elements) {
    const auto axis = static_cast<int>(prefix_.size());
    if (axis == extents_.rank()) {
      found_.push_back(prefix_);
      return;
    }
    int64_t inner = 1;
    for (int other = axis + 1; other < extents_.rank(); ++other) inner *= extents_[other];
    const int64_t first = elements.begin / inner;
    int64_t begin = elements.begin;
    if (begin % inner != 0 || elements.end < begin + inner) {
      const int64_t end = std::min(elements.end, (first + 1) * inner);
      within({first, first + 1}, {begin - first * inner, end - first * inner});
      begin = end;
    }
    const int64_t last = elements.end / inner;
    if (begin < last * inner) {
      within({begin / inner, last}, {0, inner});
      begin = last * inner;
    }
    if (begin < elements.end) within({last, last + 1}, {0, elements.end - begin});
  }

  void within(ops::Range indices, ops::Range elements) {
    prefix_.push_back(indices);
    divide(elements);
    prefix_.pop_back();
  }

  const ops::Shape& extents_;
  std::vector<ops::Range> prefix_;
  std::vector<std::vector<ops::Range>> found_;
};

int64_t elements_of(const ops::Box& box, const ops::Shape& shape) {
  return ops::local_shape(box, shape).elements();
}

}  // namespace

std::vector<ops::Box> boxes_of_elements(const ops::Box& held, const ops::Shape& shape,
                                        ops::Range elements) {
  std::vector<ops::Box> boxes;
  const ops::Shape extents = ops::local_shape(held, shape);
  for (const std::vector<ops::Range>& axes : Division(extents).of(elements)) {
    ops::Box& box = boxes.emplace_back();
    for (size_t axis = 0; axis < axes.size(); ++axis)
      box.axes.push_back(indices_of(held.axes[axis], shape[static_cast<int>(axis)], axes[axis]));
  }
  return boxes;
}

void add_numbers(const std::string& kind, const ElementsOf& what, std::span<const float> numbers,
                 std::vector<StoredSlice>& to) {
  const ops::ValueSpec& spec = what.value.spec;
  KERF_CHECK(spec.dtype == ops::DType::kFloat32, "{} is of no float32", what.value.name);
  for (ops::Box& box :
       boxes_of_elements(what.held, spec.shape, {what.first, what.first + std::ssize(numbers)})) {
    const auto some = numbers.first(static_cast<size_t>(elements_of(box, spec.shape)));
    numbers = numbers.subspan(some.size());
    to.push_back({kind, what.value.name, spec, std::move(box), [some](const ByteSink& sink) {
                    sink({reinterpret_cast<const char*>(some.data()), some.size_bytes()});
                  }});
  }
}

void read_numbers(StoredSlices& from, const std::string& kind, const ElementsOf& what,
                  std::span<float> numbers) {
  const ops::ValueSpec& spec = what.value.spec;
  const ops::Box whole = ops::Box::whole(spec.shape.rank());
  for (const ops::Box& box :
       boxes_of_elements(what.held, spec.shape, {what.first, what.first + std::ssize(numbers)}))
    for (const ops::Box& slice : slices_of(spec)) {
      const ops::Box piece = ops::normalized(ops::intersect(slice, box), spec.shape);
      if (piece.empty()) continue;
      const std::string bytes =
          from.read(kind, what.value.name, spec, box, rows_of(slice, whole, spec.shape));
      const ops::Selection selection(slice, piece, spec);
      selection.pack(reinterpret_cast<const std::byte*>(bytes.data()),
                     reinterpret_cast<std::byte*>(numbers.data()), 1);
      numbers = numbers.subspan(static_cast<size_t>(elements_of(piece, spec.shape)));
    }
}

void add_count(const std::string& kind, const partitioner::Value& value, int64_t count,
               std::vector<StoredSlice>& to) {
  to.push_back({kind, value.name, count_spec(), ops::Box::whole(0), [count](const ByteSink& sink) {
                  sink({reinterpret_cast<const char*>(&count), sizeof count});
                }});
}

int64_t read_count(StoredSlices& from, const std::string& kind, const partitioner::Value& value) {
  const std::string bytes = from.read(kind, value.name, count_spec(), ops::Box::whole(0), {0, 1});
  int64_t count = 0;
  KERF_CHECK(bytes.size() == sizeof count, "a count of {} bytes", bytes.size());
  std::memcpy(&count, bytes.data(), sizeof count);
  if (count < 0)
    throw Error(ErrorCode::kUsage,
                kerf::format("its {} of '{}' are {}, below 0: move this checkpoint away, and the "
                             "run goes on from the one before",
                             kind, value.name, count),
                from.file_of(kind, value.name));
  return count;
}

}  // namespace kerf::schedmp
