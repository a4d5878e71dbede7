#include "apps/data/image_folder.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "apps/data/byte_source.h"
#include "apps/data/folders.h"
#include "apps/data/picture.h"
#include "apps/data/rows_for_tests.h"
#include "apps/data/sizes.h"
#include "runtime/error.h"
#include "runtime/fingerprint.h"

namespace kerf::apps {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFileBytes = size_t{1} << 28;
constexpr std::array<float, 3> kMeans{0.485F, 0.456F, 0.406F};
constexpr std::array<float, 3> kDeviations{0.229F, 0.224F, 0.225F};
constexpr float kMiddleGrey = 0.5F;

bool is_picture(const fs::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char letter) { return std::tolower(letter); });
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

// In the order of their names, but for hidden ones.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code fault;
  for (fs::directory_iterator at(folder, fault), end; !fault && at != end; at.increment(fault))
    if (!at->path().filename().string().starts_with('.')) entries.push_back(at->path());
  if (fault)
    throw Error(ErrorCode::kUsage, format("it cannot be read: {}", fault.message()),
                folder.string());
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool holds_folders(const fs::path& folder) {
  return std::ranges::any_of(entries_of(folder), is_folder);
}

}  // namespace

ImageFolder::ImageFolder(const std::string& sizes_and_folder, schedmp::Split split,
                         const schedmp::DataRequest& request) {
  const size_t colon = sizes_and_folder.find(':');
  const auto sizes = parse_sizes(sizes_and_folder.substr(0, colon), 3, 3,
                                 "CHANNELSxHEIGHTxWIDTH:FOLDER", "images:3x224x224:pictures");
  channels_ = sizes[0];
  height_ = sizes[1];
  width_ = sizes[2];
  folder_ = colon == std::string::npos ? "" : sizes_and_folder.substr(colon + 1);
  if (channels_ != 1 && channels_ != 3)
    throw Error(ErrorCode::kUsage,
                format("pictures have 1 or 3 channels, but the model reads {}", channels_),
                folder_.string());
  if (const std::string why = why_no_folder(folder_); !why.empty())
    throw Error(ErrorCode::kUsage, why + " of pictures", folder_.string());
  const auto has = [&](const char* name) { return is_folder(folder_ / name); };
  const char* const tests = has("test") ? "test" : "val";
  const bool divided = has("train") || (has(tests) && holds_folders(folder_ / tests));
  const char* const part = split == schedmp::Split::kTrain ? "train" : tests;
  if (divided && !has(part))
    throw Error(ErrorCode::kUsage,
                split == schedmp::Split::kTrain
                    ? "it has no folder train, which the other one's tests are for"
                    : "beside train it has neither test nor val; --no-test does without",
                folder_.string());
  if (request.numbering && request.numbering->what == "classes") {
    classes_ = request.numbering->names;
    known_ = true;
  } else {
    // The classes are those of training, where there is any.
    const char* const whose = has("train") ? "train" : part;
    for (const fs::path& entry : entries_of(divided ? folder_ / whose : folder_))
      if (is_folder(entry)) classes_.push_back(entry.filename().string());
  }
  part_ = divided ? part : "";
  list(divided ? folder_ / part : folder_, split, !divided, request.working);
}

int64_t ImageFolder::class_of(const fs::path& folder) const {
  const auto found = std::find(classes_.begin(), classes_.end(), folder.filename().string());
  if (found == classes_.end())
    throw Error(ErrorCode::kUsage,
                format("there is no class of that name among those {}: {}",
                       known_ ? "that the weights were trained for" : "of training",
                       fmt::join(classes_, ", ")),
                folder.string());
  return found - classes_.begin();
}

void ImageFolder::list(const fs::path& folder, schedmp::Split split, bool holds_out,
                       const schedmp::Working& working) {
  for (const fs::path& entry : entries_of(folder)) {
    if (!is_folder(entry)) continue;
    const int64_t label = class_of(entry);
    int64_t number = 0;
    for (const fs::path& file : entries_of(entry)) {
      if (working) working();
      if (!is_picture(file)) continue;
      std::error_code fault;
      const bool is_file = fs::is_regular_file(file, fault);
      const uint64_t bytes = is_file ? fs::file_size(file, fault) : 0;
      if (!is_file || fault)
        throw Error(ErrorCode::kUsage, "it is called a picture and is no file; take it away",
                    file.string());
      const bool is_test = ++number % kShareForTests == 0;
      if (holds_out && is_test != (split == schedmp::Split::kTest)) continue;
      pictures_.push_back({file.filename().string(), bytes, static_cast<uint32_t>(label)});
    }
  }
  if (pictures_.empty())
    throw Error(ErrorCode::kUsage,
                format("it has no pictures for {}: .png or .jpg files in a folder for each class{}",
                       split == schedmp::Split::kTrain ? "training" : "tests",
                       holds_out ? ", of which every tenth is for tests" : ""),
                folder.string());
}

std::optional<ops::ValueSpec> ImageFolder::input(std::string_view /*name*/) const {
  return ops::ValueSpec{ops::DType::kFloat32, {ops::kBatch, channels_, height_, width_}};
}

fs::path ImageFolder::within(const File& file) const {
  return part_ / classes_[file.label] / file.name;
}

int64_t ImageFolder::held_bytes() const {
  auto held = static_cast<int64_t>(pictures_.capacity() * sizeof(File));
  for (const File& file : pictures_) held += static_cast<int64_t>(file.name.capacity());
  return held;
}

std::string ImageFolder::fingerprint() const {
  runtime::Fingerprint sum;
  for (const File& file : pictures_)
    sum.add_text(format("{} {} {}\n", within(file).string(), file.label, file.bytes));
  return format("images {}x{}x{} {} {} {}", channels_, height_, width_, pictures_.size(),
                classes_.size(), sum.hex());
}

void ImageFolder::read_picture(const File& file, float* to) const {
  const FileBytes source(folder_ / within(file));
  if (source.size() > kMostFileBytes)
    throw Error(ErrorCode::kUsage, format("{} bytes are no picture", source.size()),
                source.origin());
  std::vector<std::byte> bytes(source.size());
  source.read(0, bytes);
  resize_picture(decode_picture(bytes, channels_, source.origin()), height_, width_, to);
  for (int64_t channel = 0; channel < channels_; ++channel) {
    const auto at = static_cast<size_t>(channel);
    const float mean = channels_ == 1 ? kMiddleGrey : kMeans[at];
    const float deviation = channels_ == 1 ? kMiddleGrey : kDeviations[at];
    for (float* end = to + height_ * width_; to != end; ++to) *to = (*to / 255 - mean) / deviation;
  }
}

void ImageFolder::read_input(std::string_view /*name*/, std::span<const int64_t> rows,
                             const ops::TensorView& to) const {
  const int64_t each = channels_ * height_ * width_;
  KERF_CHECK(to.dtype == ops::DType::kFloat32 && to.elements() == std::ssize(rows) * each);
  float* out = to.f32();
  for (const int64_t row : rows) {
    KERF_CHECK(row >= 0 && row < this->rows(), "row {} of {}", row, this->rows());
    read_picture(pictures_[static_cast<size_t>(row)], out);
    out += each;
  }
}

void ImageFolder::read_labels(std::span<const int64_t> rows, const ops::TensorView& to) const {
  KERF_CHECK(to.dtype == ops::DType::kInt64 && to.elements() == std::ssize(rows));
  int64_t* out = to.i64();
  for (const int64_t row : rows) {
    KERF_CHECK(row >= 0 && row < this->rows(), "row {} of {}", row, this->rows());
    *out++ = pictures_[static_cast<size_t>(row)].label;
  }
}

}  // namespace kerf::apps
