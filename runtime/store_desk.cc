#include "runtime/store_desk.h"

#include <span>
#include <utility>

namespace kerf::runtime {
namespace {

[[noreturn]] void refuse_request(const std::string& why) { throw Error(ErrorCode::kProtocol, why); }

bool opens_file(StoreWord word) {
  return word == StoreWord::kOpen || word == StoreWord::kCreate || word == StoreWord::kExtend;
}

void tell_failure(StoreAnswer& answer, const Error& error) {
  answer.code = static_cast<int32_t>(error.code());
  answer.message = error.message();
  answer.where = error.where();
  answer.bytes.clear();
}

// What does not belong to a word is empty, so that what is said once can be said in one way only.
void expect_shape(const StoreRequest& request) {
  const bool reads = request.word == StoreWord::kRead;
  if (request.count > (reads ? kStorePiece : 0) || (request.count == 0) == reads)
    refuse_request(kerf::format("it asked for {} bytes of a file at once", request.count));
  if (request.bytes.size() > (request.word == StoreWord::kWrite ? kStorePiece : 0))
    refuse_request(kerf::format("it wrote {} bytes of a file at once", request.bytes.size()));
  if (opens_file(request.word) == request.path.empty())
    refuse_request("it named a file where none is opened");
  if (request.place != 0 && !reads && request.word != StoreWord::kExtend)
    refuse_request("it named a place in a file where none is read");
}

}  // namespace

StoreAnswer StoreDesk::answer(const StoreRequest& request) {
  expect_shape(request);
  StoreAnswer answer{.file = request.file};
  if (opens_file(request.word)) {
    expect_number(request);
    open(request, answer);
    return answer;
  }
  File& file = file_of(request);
  if (request.word == StoreWord::kClose) {
    files_.erase(request.file);
    return answer;
  }
  if (file.writes == (request.word == StoreWord::kRead))
    refuse_request(file.writes ? "it read a file that it writes" : "it wrote a file that it reads");
  try {
    if (file.failure) throw Error(*file.failure);
    file.writes ? write(file, request) : read(file, request, answer);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kProtocol) throw;
    if (file.writes) file.failure = error;
    tell_failure(answer, error);
  }
  return answer;
}

std::string StoreDesk::path_of(const StoreRequest& request) const {
  if (!request.path.empty()) return request.path;
  const auto found = files_.find(request.file);
  return found == files_.end() ? "a file" : found->second.path;
}

void StoreDesk::expect_number(const StoreRequest& request) const {
  if (request.file < 0 || request.file >= kMostStoreFiles)
    refuse_request(kerf::format("it numbered a file {}, of {}", request.file, kMostStoreFiles));
  if (files_.contains(request.file)) refuse_request("it opened a file under the number of another");
}

// One that cannot be opened is closed by the worker as any.
void StoreDesk::open(const StoreRequest& request, StoreAnswer& answer) {
  const bool writes = request.word != StoreWord::kOpen;
  rules_.check(worker_, request.path, writes ? StoreAccess::kWrite : StoreAccess::kRead);
  File& file = files_[request.file];
  file.path = request.path;
  file.writes = writes;
  try {
    if (request.word == StoreWord::kCreate) {
      file.writable = store_.create(request.path);
    } else if (request.word == StoreWord::kExtend) {
      file.writable = store_.extend(request.path, request.place);
    } else if ((file.readable = store_.find(request.path))) {
      answer.size = file.readable->bytes();
    } else {
      answer.code = kNoSuchFile;
      file.failure = Error(ErrorCode::kUsage, "there is nothing of that name", request.path);
    }
  } catch (const Error& error) {
    file.failure = error;
    tell_failure(answer, error);
  }
}

StoreDesk::File& StoreDesk::file_of(const StoreRequest& request) {
  const auto found = files_.find(request.file);
  if (found == files_.end()) refuse_request("it used a file that it had not opened");
  return found->second;
}

void StoreDesk::read(File& file, const StoreRequest& request, StoreAnswer& answer) {
  const uint64_t bytes = file.readable->bytes();
  if (request.place > bytes || request.count > bytes - request.place)
    throw Error(ErrorCode::kUsage,
                kerf::format("it ends after {} bytes; {} were asked for from byte {} on", bytes,
                             request.count, request.place),
                file.readable->origin());
  answer.bytes.resize(request.count);
  file.readable->read(request.place, std::as_writable_bytes(std::span(answer.bytes)),
                      ErrorCode::kUsage);
}

void StoreDesk::write(File& file, const StoreRequest& request) {
  if (file.committed) refuse_request("it used a file that it had committed");
  if (request.word == StoreWord::kWrite) return file.writable->write(request.bytes);
  if (request.word == StoreWord::kSettle) return file.writable->settle();
  if (request.word != StoreWord::kCommit)
    refuse_request(kerf::format("it asked for {} of a file", static_cast<int>(request.word)));
  file.writable->commit();
  file.committed = true;
}

}  // namespace kerf::runtime
