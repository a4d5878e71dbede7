#include "schedmp/training/result_shares.h"

#include <fstream>
#include <map>

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

}  // namespace

std::filesystem::path result_file(const std::filesystem::path& folder, partitioner::ValueId value,
                                  int part) {
  return folder / kerf::format("result{}.part{}", value, part);
}

void write_result(const std::filesystem::path& folder, const partitioner::Model& model,
                  const GivenResult& given, int64_t first) {
  const std::filesystem::path path = result_file(folder, given.value, given.part);
  std::ofstream file(path, std::ios::binary | std::ios::app);
  const ResultRecord record{first + given.first, given.rows,
                            static_cast<int64_t>(given.share.bytes())};
  file.write(reinterpret_cast<const char*>(&record), sizeof(record));
  file.write(reinterpret_cast<const char*>(given.share.data), record.bytes);
  file.flush();
  if (!file)
    throw Error(ErrorCode::kUnavailable,
                kerf::format("cannot write the result {}", model.value(given.value).name),
                path.string());
}

void join_result(const partitioner::Model& model, const partitioner::Plan& plan,
                 const partitioner::Result& result, const std::filesystem::path& results,
                 const std::function<void(std::span<const std::byte> rows)>& rows) {
  const Value& value = model.value(result.value);
  const ops::Layout& layout = plan.layouts[static_cast<size_t>(result.value)];
  const ops::Box whole = ops::Box::whole(value.spec.shape.rank());
  std::vector<RecordReader> readers;
  std::vector<ops::Selection> pieces;
  for (const ops::Share& share : layout.shares) {
    const std::filesystem::path file = result_file(results, result.value, share.part);
    if (!std::filesystem::exists(file)) continue;  // a replica of one that has it
    readers.emplace_back(file);
    pieces.emplace_back(whole, share.box, value.spec);
  }
  if (readers.empty()) cannot_join("no worker left the result", results / result.name);
  std::vector<std::byte> batch;
  int64_t done = 0;
  while (readers[0].next()) {
    const ResultRecord& first = readers[0].record;
    if (first.first != done)
      cannot_join(kerf::format("row {} is missing", done), readers[0].path());
    done += first.rows;
    batch.assign(value.spec.bytes(first.rows), std::byte{});
    for (size_t i = 0; i < readers.size(); ++i) {
      if (i > 0 && (!readers[i].next() || readers[i].record.first != first.first ||
                    readers[i].record.rows != first.rows))
        cannot_join("the shares of the results differ in their rows", readers[i].path());
      if (readers[i].bytes.size() != pieces[i].bytes(first.rows))
        cannot_join("the share has another size", readers[i].path());
      pieces[i].unpack(readers[i].bytes.data(), batch.data(), first.rows);
    }
    rows(batch);
  }
  for (size_t i = 1; i < readers.size(); ++i)
    if (readers[i].next())
      cannot_join("the shares of the results differ in their rows", readers[i].path());
  for (const RecordReader& reader : readers) std::filesystem::remove(reader.path());
}

}  // namespace kerf::schedmp
