#include "schedmp/training/result_shares.h"

#include <fstream>
#include <map>
#include <span>
#include <utility>

#include "ops/pack.h"
#include "schedmp/training/training.h"

namespace kerf::schedmp {

using partitioner::Value;

namespace {

// Before the bytes of a micro-batch.
struct ResultRecord {
  int64_t first = 0;
  int64_t rows = 0;
  int64_t bytes = 0;
};

// Bytes that are kept of what a worker wrote whose place this one took: those of rows before this
// one, which come no more. A record that it had no time to end is written again.
uint64_t bytes_before(runtime::ReadableFile& file, int64_t first) {
  constexpr auto kHead = static_cast<int64_t>(sizeof(ResultRecord));
  const auto size = static_cast<int64_t>(file.bytes());
  int64_t kept = 0;
  while (kept + kHead <= size) {
    ResultRecord record;
    file.read(static_cast<uint64_t>(kept), std::as_writable_bytes(std::span(&record, 1)),
              ErrorCode::kUnavailable);
    if (record.first >= first || record.bytes < 0 || record.bytes > size - kept - kHead) break;
    kept += kHead + record.bytes;
  }
  return static_cast<uint64_t>(kept);
}

[[noreturn]] void cannot_join(const std::string& why, const std::filesystem::path& file) {
  throw Error(ErrorCode::kUnavailable, why, file.string());
}

// A share's records, in the order in which they were written.
class RecordReader {
 public:
  explicit RecordReader(const std::filesystem::path& file)
      : path_(file), file_(file, std::ios::binary) {
    if (!file_) cannot_join("the worker left no results", path_);
  }

  // False at the end.
  bool next() {
    if (file_.peek() == std::ifstream::traits_type::eof()) return false;
    file_.read(reinterpret_cast<char*>(&record), sizeof(record));
    if (file_) {
      bytes.resize(static_cast<size_t>(record.bytes));
      file_.read(reinterpret_cast<char*>(bytes.data()), record.bytes);
    }
    if (!file_) cannot_join("the results are cut short", path_);
    return true;
  }
  const std::filesystem::path& path() const { return path_; }

  ResultRecord record;
  std::vector<std::byte> bytes;

 private:
  std::filesystem::path path_;
  std::ifstream file_;
};

// The shares of one replica, which have the same rows one after the other.
class Shares {
 public:
  void add(const std::filesystem::path& file, ops::Selection piece) {
    readers_.emplace_back(file);
    pieces_.push_back(std::move(piece));
  }

  // Reads the next rows of all; false at the end.
  bool next() {
    const bool more = readers_[0].next();
    for (size_t i = 1; i < readers_.size(); ++i)
      if (readers_[i].next() != more || (more && (readers_[i].record.first != record().first ||
                                                  readers_[i].record.rows != record().rows)))
        cannot_join("the shares of the results differ in their rows", readers_[i].path());
    return more;
  }
  const ResultRecord& record() const { return readers_[0].record; }
  const std::filesystem::path& path() const { return readers_[0].path(); }

  void unpack(std::vector<std::byte>& batch) const {
    for (size_t i = 0; i < readers_.size(); ++i) {
      if (readers_[i].bytes.size() != pieces_[i].bytes(record().rows))
        cannot_join("the share has another size", readers_[i].path());
      pieces_[i].unpack(readers_[i].bytes.data(), batch.data(), record().rows);
    }
  }
  void remove() const {
    for (const RecordReader& reader : readers_) std::filesystem::remove(reader.path());
  }

 private:
  std::vector<RecordReader> readers_;
  std::vector<ops::Selection> pieces_;
};

}  // namespace

std::filesystem::path result_file(const std::filesystem::path& folder, partitioner::ValueId value,
                                  int part) {
  return folder / kerf::format("result{}.part{}", value, part);
}

void ResultWriter::write(const GivenResult& given, int64_t first) {
  const std::filesystem::path path = result_file(folder_, given.value, given.part);
  const ResultRecord record{first + given.first, given.rows,
                            static_cast<int64_t>(given.share.bytes())};
  std::unique_ptr<runtime::WritableFile>& file = files_[path];
  if (!file) {
    const auto there = store_.find(path);
    file = store_.extend(path, there ? bytes_before(*there, record.first) : 0);
  }
  file->write({reinterpret_cast<const char*>(&record), sizeof(record)});
  file->write({reinterpret_cast<const char*>(given.share.data), given.share.bytes()});
  file->flush();
}

void join_result(const partitioner::Model& model, const partitioner::Plan& plan,
                 const partitioner::Result& result, const std::filesystem::path& results,
                 const std::function<void(std::span<const std::byte> rows)>& rows) {
  const Value& value = model.value(result.value);
  const ops::Layout& layout = plan.layouts[static_cast<size_t>(result.value)];
  const ops::Box whole = ops::Box::whole(value.spec.shape.rank());
  std::map<int, Shares> replicas;
  for (const ops::Share& share : layout.shares) {
    const std::filesystem::path file = result_file(results, result.value, share.part);
    if (!std::filesystem::exists(file)) continue;  // another part has the same, or it had no rows
    replicas[plan.division.replica_of(share.part)].add(file, {whole, share.box, value.spec});
  }
  if (replicas.empty()) cannot_join("no worker left the result", results / result.name);
  std::map<int64_t, Shares*> next;  // by the first of the rows that it has read
  const auto read = [&](Shares& shares) {
    if (shares.next()) next[shares.record().first] = &shares;
  };
  for (auto& [replica, shares] : replicas) read(shares);
  std::vector<std::byte> batch;
  for (int64_t done = 0; !next.empty();) {
    Shares& shares = *next.begin()->second;
    next.erase(next.begin());
    const int64_t count = shares.record().rows;
    if (shares.record().first != done)
      cannot_join(kerf::format("row {} is missing", done), shares.path());
    done += count;
    batch.assign(value.spec.bytes(count), std::byte{});
    shares.unpack(batch);
    rows(batch);
    read(shares);
  }
  for (const auto& [replica, shares] : replicas) shares.remove();
}

}  // namespace kerf::schedmp
