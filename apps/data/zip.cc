#include "apps/data/zip.h"

#include <algorithm>

#include "apps/data/inflated_bytes.h"
#include "apps/data/stored_bytes.h"
#include "runtime/error.h"

namespace kerf::apps {

namespace {

constexpr uint64_t kLocalHeader = 30;
constexpr uint64_t kEntryHeader = 46;
constexpr uint64_t kEndOfDirectory = 22;
constexpr uint64_t kLocator64 = 20;
constexpr uint64_t kEndOfDirectory64 = 56;
constexpr uint64_t kMostComment = 0xffff;
constexpr uint64_t kMostDirectory = uint64_t{16} << 20;
constexpr uint16_t kStored = 0;
constexpr uint16_t kDeflated = 8;
constexpr uint32_t kIn64 = 0xffffffff;  // the number is elsewhere

// Little-endian numbers of a text that is long enough.
uint64_t zip_number(std::string_view text, size_t at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<uint8_t>(text[at + i]);
  return value;
}

[[noreturn]] void refuse_zip(const std::string& origin, const std::string& what) {
  throw Error(ErrorCode::kUsage, what, origin);
}

// Of the extra field of an entry, the numbers that did not fit, in their order.
class Extra64 {
 public:
  Extra64(std::string_view extra, const std::string& origin) : origin_(origin) {
    while (extra.size() >= 4) {
      const uint64_t id = zip_number(extra, 0, 2);
      const uint64_t bytes = zip_number(extra, 2, 2);
      if (bytes > extra.size() - 4) refuse_zip(origin, "an extra field of its directory is cut");
      if (id == 1) numbers_ = extra.substr(4, bytes);
      extra.remove_prefix(4 + bytes);
    }
  }
  void take(uint64_t& number) {
    if (number != kIn64) return;
    if (numbers_.size() < 8) refuse_zip(origin_, "a size of its directory is missing");
    number = zip_number(numbers_, 0, 8);
    numbers_.remove_prefix(8);
  }

 private:
  const std::string& origin_;
  std::string_view numbers_;
};

}  // namespace

ZipArchive::ZipArchive(std::shared_ptr<const ByteSource> file) : file_(std::move(file)) {
  const std::string& origin = file_->origin();
  const uint64_t tail_bytes = std::min<uint64_t>(file_->size(), kEndOfDirectory + kMostComment);
  const std::string tail = read_text(*file_, file_->size() - tail_bytes, tail_bytes);
  // Whose comment ends with the file: the same bytes may be in the comment.
  const auto ends_the_file = [&](size_t begin) {
    return tail.size() - begin >= kEndOfDirectory &&
           zip_number(tail, begin + 20, 2) == tail.size() - begin - kEndOfDirectory;
  };
  size_t at = tail.rfind("PK\5\6");
  while (at != std::string::npos && !ends_the_file(at))
    at = at == 0 ? std::string::npos : tail.rfind("PK\5\6", at - 1);
  if (at == std::string::npos)
    refuse_zip(origin, "it is no zip archive, or truncated: there is no end of a directory");
  uint64_t count = zip_number(tail, at + 10, 2);
  uint64_t bytes = zip_number(tail, at + 12, 4);
  uint64_t offset = zip_number(tail, at + 16, 4);
  const uint64_t end = file_->size() - tail_bytes + at;
  if (offset == kIn64 || bytes == kIn64 || count == 0xffff) {
    if (end < kLocator64) refuse_zip(origin, "the place of its directory is missing");
    const std::string locator = read_text(*file_, end - kLocator64, kLocator64);
    if (!locator.starts_with("PK\6\7")) refuse_zip(origin, "the place of its directory is missing");
    const std::string end64 = read_text(*file_, zip_number(locator, 8, 8), kEndOfDirectory64);
    if (!end64.starts_with("PK\6\6")) refuse_zip(origin, "the end of its directory is damaged");
    count = zip_number(end64, 32, 8);
    bytes = zip_number(end64, 40, 8);
    offset = zip_number(end64, 48, 8);
  }
  read_directory(offset, bytes, count);
}

void ZipArchive::read_directory(uint64_t offset, uint64_t bytes, uint64_t count) {
  const std::string& origin = file_->origin();
  if (bytes > kMostDirectory || count > bytes / kEntryHeader)
    refuse_zip(origin, format("its directory claims {} members in {} bytes", count, bytes));
  const std::string text = read_text(*file_, offset, bytes);
  std::string_view rest = text;
  for (uint64_t i = 0; i < count; ++i) {
    if (rest.size() < kEntryHeader || !rest.starts_with("PK\1\2"))
      refuse_zip(origin, format("member {} of its directory is damaged", i));
    const uint64_t name = zip_number(rest, 28, 2);
    const uint64_t extra = zip_number(rest, 30, 2);
    const uint64_t entry = kEntryHeader + name + extra + zip_number(rest, 32, 2);
    if (entry > rest.size()) refuse_zip(origin, format("member {} of its directory is cut", i));
    Member member;
    member.method = static_cast<uint16_t>(zip_number(rest, 10, 2));
    member.checksum = static_cast<uint32_t>(zip_number(rest, 16, 4));
    member.compressed = zip_number(rest, 20, 4);
    member.size = zip_number(rest, 24, 4);
    member.header = zip_number(rest, 42, 4);
    if ((zip_number(rest, 8, 2) & 1) != 0) refuse_zip(origin, "its members are encrypted");
    Extra64 numbers(rest.substr(kEntryHeader + name, extra), origin);
    numbers.take(member.size);
    numbers.take(member.compressed);
    numbers.take(member.header);
    const std::string of(rest.substr(kEntryHeader, name));
    if (!members_.try_emplace(of, member).second)
      refuse_zip(origin, format("two of its members are called {}", of));
    rest.remove_prefix(entry);
  }
}

std::vector<std::string> ZipArchive::names() const {
  std::vector<std::string> names;
  for (const auto& [name, member] : members_) names.push_back(name);
  return names;
}

std::shared_ptr<const ByteSource> ZipArchive::open(const std::string& name) const {
  const std::string origin = file_->origin() + ": " + name;
  const auto found = members_.find(name);
  if (found == members_.end()) refuse_zip(origin, "there is no such member");
  const Member& member = found->second;
  if (member.header > file_->size()) refuse_zip(origin, "it begins beyond the archive's end");
  const std::string header = read_text(*file_, member.header, kLocalHeader);
  if (!header.starts_with("PK\3\4")) refuse_zip(origin, "its header is damaged");
  const uint64_t begin =
      member.header + kLocalHeader + zip_number(header, 26, 2) + zip_number(header, 28, 2);
  if (begin > file_->size() || member.compressed > file_->size() - begin)
    refuse_zip(origin, format("it is truncated: its {} bytes begin at byte {} of {}",
                              member.compressed, begin, file_->size()));
  if (member.method == kStored && member.size != member.compressed)
    refuse_zip(origin, format("it is stored as it is, but takes {} bytes and has {}",
                              member.compressed, member.size));
  if (member.method == kStored)
    return std::make_shared<StoredBytes>(file_, begin, member.size, origin, member.checksum);
  if (member.method != kDeflated)
    refuse_zip(origin,
               format("its method is {}; known are 0 (stored) and 8 (deflated)", member.method));
  return std::make_shared<InflatedBytes>(
      std::make_shared<StretchOfBytes>(file_, begin, member.compressed, origin, member.checksum),
      member.size, member.checksum, Wrapping::kNone, origin);
}

}  // namespace kerf::apps
