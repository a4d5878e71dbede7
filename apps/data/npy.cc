#include "apps/data/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "runtime/error.h"

namespace kerf::apps {

namespace {

using ops::DType;

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr size_t kMostHeader = size_t{1} << 16;
constexpr size_t kMostAxes = 64;
constexpr int64_t kMostNpyBytes = int64_t{1} << 62;

struct NpyType {
  std::string_view name;
  DType dtype;
};
constexpr std::array<NpyType, 13> kNpyTypes{{{"<f4", DType::kFloat32},
                                             {"<f8", DType::kFloat64},
                                             {"<f2", DType::kFloat16},
                                             {"<V2", DType::kBFloat16},
                                             {"<i4", DType::kInt32},
                                             {"<i8", DType::kInt64},
                                             {"|b1", DType::kBool},
                                             {"|i1", DType::kInt8},
                                             {"<i2", DType::kInt16},
                                             {"|u1", DType::kUint8},
                                             {"<u2", DType::kUint16},
                                             {"<u4", DType::kUint32},
                                             {"<u8", DType::kUint64}}};

// Reads the Python literal of a header: the one form that NumPy writes, in any order of keys.
class NpyLiteral {
 public:
  NpyLiteral(std::string_view text, size_t offset, const std::string& origin)
      : text_(text), offset_(offset), origin_(origin) {}

  NpyHeader parse() {
    expect('{');
    for (skip(); !taken('}'); skip()) {
      member();
      skip();
      if (taken('}')) break;
      expect(',');
    }
    skip();
    if (at_ != text_.size()) fail("expected nothing behind the '}'");
    if (!dtype_ || !fortran_ || !has_shape_)
      fail("it lacks one of 'descr', 'fortran_order' and 'shape'");
    if (*fortran_ && header_.extents.size() > 1)
      fail("its elements are in Fortran's order; save numpy.ascontiguousarray(...) of it");
    header_.dtype = *dtype_;
    return std::move(header_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::kUsage, format("byte {} of its header: {}", offset_ + at_, what),
                origin_);
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool taken(char symbol) {
    if (at_ >= text_.size() || text_[at_] != symbol) return false;
    ++at_;
    return true;
  }
  void expect(char symbol) {
    skip();
    if (!taken(symbol)) fail(format("expected '{}'", symbol));
  }
  bool taken(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  std::string_view quoted() {
    skip();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail("expected a text in quotes");
    const size_t end = text_.find(quote, ++at_);
    if (end == std::string_view::npos) fail("a text has no end");
    const std::string_view found = text_.substr(at_, end - at_);
    at_ = end + 1;
    return found;
  }

  void member() {
    const std::string_view key = quoted();
    expect(':');
    skip();
    if (key == "descr" && !dtype_) return element_type();
    if (key == "fortran_order" && !fortran_) {
      if (taken("True"))
        fortran_ = true;
      else if (taken("False"))
        fortran_ = false;
      else
        fail("expected True or False");
      return;
    }
    if (key == "shape" && !has_shape_) return shape();
    fail("expected 'descr', 'fortran_order' and 'shape', once each");
  }

  void element_type() {
    if (at_ < text_.size() && text_[at_] == '[')
      fail("its elements are records; save each field by itself");
    const std::string_view name = quoted();
    for (const NpyType& type : kNpyTypes)
      if (name == type.name || (name.size() == 3 && type.dtype == DType::kBFloat16 &&
                                name.substr(1) == type.name.substr(1)))
        dtype_ = type.dtype;
    if (dtype_) return;
    std::vector<std::string_view> known;
    for (const NpyType& type : kNpyTypes) known.push_back(type.name);
    fail(
        format("its elements are none of {}; convert them by .astype(...)", fmt::join(known, " ")));
  }

  void shape() {
    has_shape_ = true;
    expect('(');
    int64_t elements = 1;
    for (skip(); !taken(')'); skip()) {
      int64_t extent = 0;
      const auto [next, fault] =
          std::from_chars(text_.data() + at_, text_.data() + text_.size(), extent);
      if (fault != std::errc() || extent < 0) fail("expected a number of indices");
      at_ = static_cast<size_t>(next - text_.data());
      if (header_.extents.size() == kMostAxes) fail("it has too many axes");
      if (extent > 0 && elements > kMostNpyBytes / 8 / extent) fail("it claims too many elements");
      elements *= std::max<int64_t>(extent, 1);
      header_.extents.push_back(extent);
      skip();
      if (taken(')')) return;
      expect(',');
    }
  }

  std::string_view text_;
  size_t offset_;
  const std::string& origin_;
  size_t at_ = 0;
  NpyHeader header_;
  std::optional<DType> dtype_;
  std::optional<bool> fortran_;
  bool has_shape_ = false;
};

size_t npy_bytes(const NpyHeader& header) {
  return static_cast<size_t>(header.elements()) * ops::size_of(header.dtype);
}

}  // namespace

int64_t NpyHeader::elements() const {
  int64_t product = 1;
  for (const int64_t extent : extents) product *= extent;
  return product;
}

ops::Shape NpyHeader::shape(const std::string& origin) const {
  if (extents.size() > ops::Shape::kMaxRank)
    throw Error(
        ErrorCode::kUsage,
        format("it has {} axes; a tensor has at most {}", extents.size(), ops::Shape::kMaxRank),
        origin);
  return ops::Shape(extents);
}

NpyHeader parse_npy_header(std::string_view head, const std::string& origin) {
  const auto fail = [&](const std::string& what) { throw Error(ErrorCode::kUsage, what, origin); };
  if (head.substr(0, kNpyMagic.size()) != kNpyMagic)
    fail("it is no .npy file (expected one that begins with 93 'NUMPY')");
  const auto byte = [&](size_t at) -> size_t {
    if (at >= head.size()) fail(format("it is truncated: it has {} bytes in all", head.size()));
    return static_cast<uint8_t>(head[at]);
  };
  const size_t major = byte(6);
  if (major < 1 || major > 3)
    fail(format("its version is {}.{}; known are 1, 2 and 3", major, byte(7)));
  const size_t begin = major == 1 ? 10 : 12;
  size_t bytes = byte(8) | byte(9) << 8;
  if (major > 1) bytes |= byte(10) << 16 | byte(11) << 24;
  if (bytes > kMostHeader - begin) fail(format("its header claims {} bytes", bytes));
  if (head.size() < begin + bytes)
    fail(format("it is truncated: its header claims {} bytes, found {}", bytes,
                head.size() - std::min(begin, head.size())));
  NpyHeader header = NpyLiteral(head.substr(begin, bytes), begin, origin).parse();
  header.bytes = begin + bytes;
  return header;
}

// The elements begin at a multiple of 64 bytes.
std::string npy_header(DType dtype, std::span<const int64_t> extents) {
  std::string shape;
  for (const int64_t extent : extents) shape += format("{}, ", extent);
  if (extents.size() > 1) shape.resize(shape.size() - 2);
  if (extents.size() == 1) shape.pop_back();
  const auto* type = std::find_if(kNpyTypes.begin(), kNpyTypes.end(),
                                  [&](const NpyType& each) { return each.dtype == dtype; });
  KERF_CHECK(type != kNpyTypes.end(), "no name for {}", ops::to_string(dtype));
  std::string text =
      format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type->name, shape);
  while ((10 + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  std::string header(kNpyMagic);
  header +=
      {'\1', '\0', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return header + text;
}

NpyArray::NpyArray(std::shared_ptr<const ByteSource> source) : source_(std::move(source)) {
  const std::string head = read_text(*source_, 0, std::min(source_->size(), kMostHeader));
  header_ = parse_npy_header(head, source_->origin());
  const size_t expected = npy_bytes(header_);
  if (const size_t found = source_->size() - header_.bytes; found != expected)
    throw Error(ErrorCode::kUsage,
                format("its header announces {} bytes of elements, found {}", expected, found),
                source_->origin());
}

NpyArray::NpyArray(const std::filesystem::path& path)
    : NpyArray(std::make_shared<FileBytes>(path)) {}

void NpyArray::read(int64_t first, int64_t count, std::byte* to) const {
  KERF_CHECK(first >= 0 && count >= 0 && count <= header_.elements() - first, "elements of {}",
             source_->origin());
  const size_t each = ops::size_of(header_.dtype);
  source_->read(header_.bytes + static_cast<size_t>(first) * each,
                {to, static_cast<size_t>(count) * each});
}

NpyWriter::NpyWriter(const std::filesystem::path& path, DType dtype,
                     std::span<const int64_t> extents)
    : file_(path), missing_(npy_bytes({dtype, {extents.begin(), extents.end()}, 0})) {
  file_.write(npy_header(dtype, extents));
}

void NpyWriter::write(std::span<const std::byte> elements) {
  KERF_CHECK(elements.size() <= missing_, "{} bytes of {}", elements.size(), missing_);
  file_.write({reinterpret_cast<const char*>(elements.data()), elements.size()});
  missing_ -= elements.size();
}

void NpyWriter::commit() {
  KERF_CHECK(missing_ == 0, "{} bytes are missing", missing_);
  file_.commit();
}

void write_npy(const std::filesystem::path& path, const ops::TensorView& tensor) {
  NpyWriter file(path, tensor.dtype, {tensor.shape.begin(), tensor.shape.end()});
  file.write({tensor.data, tensor.bytes()});
  file.commit();
}

}  // namespace kerf::apps
