#include "partitioner/onnx/weight_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "runtime/crc32c.h"

namespace kerf::partitioner::onnx {
namespace {

using ops::DType;

constexpr size_t kPiece = size_t{1} << 20;

float from_bfloat16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

float from_float16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000U} << 16;
  const uint32_t exponent = (bits >> 10) & 0x1FU;
  const uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0) {
    const float small = static_cast<float>(fraction) * 0x1p-24F;
    return sign == 0 ? small : -small;
  }
  const uint32_t to = exponent == 0x1F ? 0xFFU : exponent + 112;
  return std::bit_cast<float>(sign | to << 23 | fraction << 13);
}

template <class From, class Convert>
void convert(std::span<const std::byte> from, std::span<std::byte> to, const Convert& one) {
  for (size_t i = 0; i < to.size() / sizeof(float); ++i) {
    From value;
    std::memcpy(&value, from.data() + i * sizeof(From), sizeof(From));
    const float given = one(value);
    std::memcpy(to.data() + i * sizeof(float), &given, sizeof(float));
  }
}

void to_float32(DType in_file, std::span<const std::byte> from, std::span<std::byte> to) {
  if (in_file == DType::kFloat64)
    convert<double>(from, to, [](double value) { return static_cast<float>(value); });
  else if (in_file == DType::kBFloat16)
    convert<uint16_t>(from, to, from_bfloat16);
  else
    convert<uint16_t>(from, to, from_float16);
}

using Source = std::function<void(uint64_t first, std::span<std::byte> to)>;

class Given final : public Contents {
 public:
  Given(Source source, DType in_file, std::function<std::string()> identity)
      : source_(std::move(source)), in_file_(in_file), identity_(std::move(identity)) {}

  void read(size_t first, std::span<std::byte> to) const override {
    if (given_as(in_file_) == in_file_) return source_(first, to);
    const size_t narrow = ops::size_of(in_file_);
    const size_t offset = first % sizeof(float);
    if (offset != 0 || to.size() % sizeof(float) != 0) return read_part(first, to);
    std::vector<std::byte> piece(to.size() / sizeof(float) * narrow);
    source_(first / sizeof(float) * narrow, piece);
    to_float32(in_file_, piece, to);
  }

  std::string identity() const override {
    return format("{} {}", ops::to_string(in_file_), identity_());
  }

 private:
  // Of whole elements, what was asked for.
  void read_part(size_t first, std::span<std::byte> to) const {
    const size_t begin = first / sizeof(float) * sizeof(float);
    const size_t end = (first + to.size() + sizeof(float) - 1) / sizeof(float) * sizeof(float);
    std::vector<std::byte> all(end - begin);
    read(begin, all);
    std::copy_n(all.begin() + static_cast<ptrdiff_t>(first - begin), to.size(), to.begin());
  }

  Source source_;
  DType in_file_;
  std::function<std::string()> identity_;
};

// A file as it is now, open as long as this lives unless it is kept.
class OpenFile {
 public:
  OpenFile(const std::string& origin, struct stat& facts)
      // O_NONBLOCK: opening a pipe must not wait for its writer.
      : file_(open(origin.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (file_ < 0)
      throw Error(ErrorCode::kUsage, format("cannot be read: {}", std::strerror(errno)), origin);
    if (fstat(file_, &facts) == 0 && S_ISREG(facts.st_mode)) return;
    close(file_);
    throw Error(ErrorCode::kUsage, "it is no regular file", origin);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (file_ >= 0) close(file_);
  }

  int number() const { return file_; }
  int kept() { return std::exchange(file_, -1); }

 private:
  int file_;
};

void read_from(int file, const std::string& origin, uint64_t first, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = pread(file, to.data(), to.size(), static_cast<off_t>(first));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw Error(ErrorCode::kUnavailable,
                  got == 0 ? format("it ends before byte {}", first)
                           : format("cannot be read: {}", std::strerror(errno)),
                  origin);
    to = to.subspan(static_cast<size_t>(got));
    first += static_cast<uint64_t>(got);
  }
}

}  // namespace

WeightFile::WeightFile(const std::filesystem::path& path, Keep keep) : origin_(path.string()) {
  struct stat facts {};
  OpenFile file(origin_, facts);
  bytes_ = static_cast<uint64_t>(facts.st_size);
  which_ = {facts.st_dev, facts.st_ino};
  if (keep == Keep::kOpen) file_ = file.kept();
}

WeightFile::~WeightFile() {
  if (file_ >= 0) close(file_);
}

void WeightFile::read(uint64_t first, std::span<std::byte> to) const {
  if (file_ >= 0) return read_from(file_, origin_, first, to);
  struct stat facts {};
  const OpenFile file(origin_, facts);
  if (which_ != std::pair<uint64_t, uint64_t>(facts.st_dev, facts.st_ino))
    throw Error(ErrorCode::kUnavailable, "another file has this name by now", origin_);
  read_from(file.number(), origin_, first, to);
}

std::string WeightFile::identity() const {
  std::call_once(summed_, [this] {
    std::string piece(kPiece, '\0');
    uint32_t sum = 0;
    for (uint64_t first = 0; first < bytes_; first += piece.size()) {
      piece.resize(std::min<uint64_t>(kPiece, bytes_ - first));
      read(first, std::as_writable_bytes(std::span(piece)));
      sum = runtime::extend_crc32c(sum, piece);
    }
    identity_ = format("{} bytes, {:08x}", bytes_, sum);
  });
  return identity_;
}

DType given_as(DType in_file) { return ops::is_floating(in_file) ? DType::kFloat32 : in_file; }

std::shared_ptr<const Contents> contents_in(std::shared_ptr<const WeightFile> file, uint64_t first,
                                            DType in_file) {
  return std::make_shared<Given>(
      [file, first](uint64_t at, std::span<std::byte> to) { file->read(first + at, to); }, in_file,
      [file, first] { return format("{} at {}", file->identity(), first); });
}

std::shared_ptr<const Contents> contents_of(std::string bytes, DType in_file) {
  const auto kept = std::make_shared<const std::string>(std::move(bytes));
  return std::make_shared<Given>(
      [kept](uint64_t at, std::span<std::byte> to) {
        KERF_CHECK(at + to.size() <= kept->size(), "bytes {} to {} of {}", at, at + to.size(),
                   kept->size());
        std::copy_n(std::as_bytes(std::span(*kept)).begin() + static_cast<ptrdiff_t>(at), to.size(),
                    to.begin());
      },
      in_file,
      [kept] {
        return format("{} bytes, {:08x}", kept->size(), runtime::extend_crc32c(0, *kept));
      });
}

ops::TensorLiteral literal_of(const std::string& name, const ops::ValueSpec& spec,
                              const Contents& contents, size_t most_bytes) {
  const size_t bytes = spec.bytes(0);
  if (bytes > most_bytes)
    throw Error(ErrorCode::kUsage,
                format("{} has {} and is wanted whole, as a constant; {} is the most", name,
                       human_bytes(static_cast<double>(bytes)),
                       human_bytes(static_cast<double>(most_bytes))));
  ops::TensorLiteral literal{spec.dtype, spec.shape, std::string(bytes, '\0')};
  contents.read(0, std::as_writable_bytes(std::span(literal.bytes)));
  return literal;
}

}  // namespace kerf::partitioner::onnx
