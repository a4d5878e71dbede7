#include "runtime/json.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/error.h"

namespace kerf {

namespace {

// Counts what the parser has read, so that errors which only this file finds have a place too.
class CountedText {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountedText() = default;
  CountedText(const char* at, size_t* count) : at_(at), count_(count) {}
  reference operator*() const { return *at_; }
  CountedText& operator++() {
    ++at_;
    ++*count_;
    return *this;
  }
  CountedText operator++(int) {
    CountedText before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountedText& other) const { return at_ == other.at_; }
  bool operator!=(const CountedText& other) const { return at_ != other.at_; }

 private:
  const char* at_ = nullptr;
  size_t* count_ = nullptr;
};

// Builds the value; throws at the first thing that is not strict.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view text, const std::string& origin, size_t max_depth)
      : text_(text), origin_(origin), max_depth_(max_depth) {}

  CountedText begin() { return {text_.data(), &read_}; }
  CountedText end() { return {text_.data() + text_.size(), &read_}; }
  Json take() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      fail(format("the integer {} does not fit 64 bits with sign", value), read_);
    return put(static_cast<int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t& written) override {
    // The lexer turns integers beyond 64 bits into floating point, which would lose digits.
    if (written.find_first_of(".eE") == std::string::npos)
      fail(format("the integer {} does not fit 64 bits with sign", written), read_);
    return put(value);
  }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { fail("binary values are not JSON", read_); }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second)
      fail(format("the key \"{}\" is there twice", name), read_);
    key_ = std::move(name);
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& why) override {
    std::string message = why.what();  // "[json.exception...] parse error at ...: syntax error ..."
    if (const size_t at = message.find("] "); at != std::string::npos) message.erase(0, at + 2);
    if (message.starts_with("parse error at"))
      if (const size_t at = message.find(": "); at != std::string::npos) message.erase(0, at + 2);
    fail(std::move(message), position);
  }

 private:
  // `position`: characters read, the last of which is where the fault was seen.
  [[noreturn]] void fail(std::string message, size_t position) const {
    const size_t at = std::min(position == 0 ? 0 : position - 1, text_.size());
    const std::string_view before = text_.substr(0, at);
    const size_t line_start =
        before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
    throw Error(ErrorCode::kUsage, std::move(message),
                format("{}:{}:{}", origin_, 1 + std::count(before.begin(), before.end(), '\n'),
                       1 + at - line_start));
  }

  Json* add(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    // keys_ knows that the key is new; parent[key] would search all of them, for each of them.
    auto& members = parent.get_ref<Json::object_t&>();
    members.emplace_back(std::move(key_), std::move(value));
    return &members.back().second;
  }
  bool put(Json value) {
    add(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (open_.size() >= max_depth_) fail(format("nested deeper than {}", max_depth_), read_);
    open_.push_back(add(std::move(value)));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  std::string_view text_;
  const std::string& origin_;
  size_t max_depth_;
  size_t read_ = 0;
  Json root_;
  std::vector<Json*> open_;  // a parent grows only at its end while a child of it is open
  std::vector<std::unordered_set<std::string>> keys_;
  std::string key_;
};

[[noreturn]] void wrong(const std::string& where, const std::string& key, const char* what) {
  throw Error(ErrorCode::kUsage, format("\"{}\" {}", key, what), where);
}

}  // namespace

Json parse_json(std::string_view text, const std::string& origin, size_t max_depth) {
  Builder builder(text, origin, max_depth);
  Json::sax_parse(builder.begin(), builder.end(), &builder);
  return builder.take();
}

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

const Json& json_at(const Json& object, const std::string& key, const std::string& where) {
  if (!object.is_object())
    throw Error(ErrorCode::kUsage, format("must be an object with \"{}\"", key), where);
  const auto found = object.find(key);
  if (found == object.end()) wrong(where, key, "is missing");
  return *found;
}

int64_t json_int(const Json& object, const std::string& key, const std::string& where) {
  const Json& value = json_at(object, key, where);
  if (!value.is_number_integer()) wrong(where, key, "must be an integer");
  return value.get<int64_t>();
}

double json_number(const Json& object, const std::string& key, const std::string& where) {
  const Json& value = json_at(object, key, where);
  if (!value.is_number()) wrong(where, key, "must be a number");
  return value.get<double>();
}

std::string json_string(const Json& object, const std::string& key, const std::string& where) {
  const Json& value = json_at(object, key, where);
  if (!value.is_string()) wrong(where, key, "must be a string");
  return value.get<std::string>();
}

const Json& json_array(const Json& object, const std::string& key, const std::string& where) {
  const Json& value = json_at(object, key, where);
  if (!value.is_array()) wrong(where, key, "must be an array");
  return value;
}

}  // namespace kerf
