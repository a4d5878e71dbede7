#include "runtime/error.h"

namespace kerf {

namespace {

// Names come from files, and a zero byte within one would end what() there.
std::string without_zeros(const std::string& text) {
  std::string shown;
  for (const char each : text) each == '\0' ? shown += "\\x00" : shown += each;
  return shown;
}

std::string text_of(const std::string& message, const std::string& where) {
  return without_zeros(where.empty() ? message : format("{}: {}", where, message));
}

}  // namespace

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
    case ErrorCode::kInfeasible:
    case ErrorCode::kUnavailable:
      return 2;
    case ErrorCode::kInterrupted:
      return 130;
    case ErrorCode::kTimeout:
    case ErrorCode::kLost:
    case ErrorCode::kDeviceLost:
    case ErrorCode::kProtocol:
    case ErrorCode::kInternal:
      return 1;
  }
  return 1;
}

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
      return "usage";
    case ErrorCode::kInfeasible:
      return "infeasible";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kLost:
      return "lost";
    case ErrorCode::kDeviceLost:
      return "device lost";
    case ErrorCode::kInterrupted:
      return "interrupted";
    case ErrorCode::kProtocol:
      return "protocol";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "unknown";
}

Error::Error(ErrorCode code, std::string message, std::string where)
    : std::runtime_error(text_of(message, where)),
      code_(code),
      message_(std::move(message)),
      where_(std::move(where)) {}

void throw_check_failure(std::string_view condition, std::string message,
                         std::source_location location) {
  std::string text = format("bug: {} does not hold", condition);
  if (!message.empty()) text += format(": {}", message);
  throw Error(ErrorCode::kInternal, std::move(text),
              format("{}:{}", location.file_name(), location.line()));
}

}  // namespace kerf
