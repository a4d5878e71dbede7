#include "partitioner/onnx/weight_file.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "ops/as_float32.h"
#include "runtime/crc32c.h"

namespace kerf::partitioner::onnx {
namespace {

using ops::DType;

constexpr uint64_t kBytesOfBlock = 512;  // as stat counts
constexpr size_t kPiece = size_t{1} << 20;

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
    ops::as_float32(in_file_, piece, to);
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

}  // namespace

WeightFile::WeightFile(const std::filesystem::path& path, Keep keep) : origin_(path.string()) {
  runtime::RegularFile file(path);
  bytes_ = file.bytes();
  bytes_on_disk_ = std::min(bytes_, static_cast<uint64_t>(file.facts().st_blocks) * kBytesOfBlock);
  which_ = {file.facts().st_dev, file.facts().st_ino};
  if (keep == Keep::kOpen) file_.emplace(std::move(file));
}

void WeightFile::read(uint64_t first, std::span<std::byte> to) const {
  if (file_) return file_->read(first, to, ErrorCode::kUnavailable);
  const runtime::RegularFile file(origin_);
  if (which_ != std::pair<uint64_t, uint64_t>(file.facts().st_dev, file.facts().st_ino))
    throw Error(ErrorCode::kUnavailable, "another file has this name by now", origin_);
  file.read(first, to, ErrorCode::kUnavailable);
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

std::shared_ptr<const Contents> contents_in(const std::shared_ptr<const WeightFile>& file,
                                            uint64_t first, DType in_file) {
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
