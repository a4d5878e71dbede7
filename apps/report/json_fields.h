// One description of a record for writing it and for reading it back:
//
//   template <class Fields>
//   void fields(Fields& f, Mine& mine) {
//     f("rows", mine.rows);
//     f.derived("mean", mine.sum / mine.rows);
//   }
//
//   Json json = to_json(mine);                        members in that order
//   from_json(json, "run.json", mine);                every member but derived ones, and no other
//
// A member is a truth value, a number, a text, a record, a list of them, or an optional (null where
// empty). Errors of reading are Error{kUsage} at "run.json: workers[2]" and name the member. For
// programs' own records; what may be large or hostile, such as plans, has a reader of its own.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/error.h"
#include "runtime/json.h"

namespace kerf::apps {

template <class T>
Json to_json(const T& value);
template <class T>
void from_json(const Json& json, const std::string& where, T& value);

class FieldWriter {
 public:
  template <class T>
  void operator()(const char* name, const T& value) {
    json_[name] = to_json(value);
  }
  // A member that records of earlier versions lack: reading leaves `value` as it is then.
  template <class T>
  void newer(const char* name, const T& value) {
    (*this)(name, value);
  }
  // A member that is there only where it says something, and writes and reads itself.
  template <class T>
  void spoken(const char* name, const T& value, Json (*write)(const T&),
              T (*)(const Json&, const std::string&)) {
    if (!value.empty()) json_[name] = write(value);
  }
  // What follows from the other members: written for who reads the text, verified where it stands.
  template <class T>
  void derived(const char* name, const T& value) {
    (*this)(name, value);
  }
  Json take() { return std::move(json_); }

 private:
  Json json_ = Json::object();
};

class FieldReader {
 public:
  FieldReader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) throw Error(ErrorCode::kUsage, "must be an object", where_);
  }

  template <class T>
  void operator()(const char* name, T& value) {
    const Json& member = json_at(json_, name, where_);
    known_.emplace_back(name);
    from_json(member, place(name), value);
  }
  template <class T>
  void newer(const char* name, T& value) {
    if (json_.contains(name)) (*this)(name, value);
  }
  template <class T>
  void spoken(const char* name, T& value, Json (*)(const T&),
              T (*read)(const Json&, const std::string&)) {
    if (!json_.contains(name)) return;
    known_.emplace_back(name);
    value = read(json_[name], place(name));
  }
  template <class T>
  void derived(const char* name, const T& value) {
    if (!json_.contains(name)) return;
    T read{};
    (*this)(name, read);
    if (read != value)
      throw Error(ErrorCode::kUsage,
                  format("\"{}\" is {}, but the other members make it {}", name,
                         json_text(to_json(read)), json_text(to_json(value))),
                  where_);
  }
  void refuse_others() const {
    for (const auto& [key, value] : json_.items())
      if (std::find(known_.begin(), known_.end(), key) == known_.end())
        throw Error(ErrorCode::kUsage, format("\"{}\" is not a member of it", key), where_);
  }

 private:
  // "run.json: workers", "run.json: plan.stages".
  std::string place(const std::string& name) const {
    return where_ + (where_.find(": ") == std::string::npos ? ": " : ".") + name;
  }

  const Json& json_;
  const std::string where_;
  std::vector<std::string> known_;
};

namespace detail {

template <class T>
constexpr bool kIsList = false;
template <class T>
constexpr bool kIsList<std::vector<T>> = true;
template <class T>
constexpr bool kIsOptional = false;
template <class T>
constexpr bool kIsOptional<std::optional<T>> = true;

template <class T>
void read_number(const Json& json, const std::string& where, T& value) {
  // NOLINTNEXTLINE(bugprone-branch-clone): branches that T has not count as equal ones
  if constexpr (std::is_same_v<T, bool>) {
    if (!json.is_boolean()) throw Error(ErrorCode::kUsage, "must be true or false", where);
  } else if constexpr (std::is_integral_v<T>) {
    const bool fits = json.is_number_unsigned()
                          ? std::in_range<T>(json.get<uint64_t>())
                          : json.is_number_integer() && std::in_range<T>(json.get<int64_t>());
    if (!fits)
      throw Error(ErrorCode::kUsage,
                  format("must be a whole number within {} and {}", std::numeric_limits<T>::min(),
                         std::numeric_limits<T>::max()),
                  where);
  } else {
    if (!json.is_number()) throw Error(ErrorCode::kUsage, "must be a number", where);
  }
  value = json.get<T>();
}

}  // namespace detail

template <class T>
Json to_json(const T& value) {
  if constexpr (detail::kIsOptional<T>) {
    return value ? to_json(*value) : Json(nullptr);
  } else if constexpr (detail::kIsList<T>) {
    Json list = Json::array();
    for (const auto& one : value) list.push_back(to_json(one));
    return list;
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    return value;
  } else {
    FieldWriter writer;
    T copy = value;  // fields() takes what it can also fill in
    fields(writer, copy);
    return writer.take();
  }
}

template <class T>
void from_json(const Json& json, const std::string& where, T& value) {
  if constexpr (detail::kIsOptional<T>) {
    value.reset();
    if (!json.is_null()) from_json(json, where, value.emplace());
    // NOLINTNEXTLINE(bugprone-branch-clone): branches that T has not count as equal ones
  } else if constexpr (detail::kIsList<T>) {
    if (!json.is_array()) throw Error(ErrorCode::kUsage, "must be an array", where);
    value.clear();
    for (const Json& one : json) {
      const std::string place = format("{}[{}]", where, value.size());
      from_json(one, place, value.emplace_back());
    }
  } else if constexpr (std::is_arithmetic_v<T>) {
    detail::read_number(json, where, value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!json.is_string()) throw Error(ErrorCode::kUsage, "must be a text", where);
    value = json.get<std::string>();
  } else {
    FieldReader reader(json, where);
    fields(reader, value);
    reader.refuse_others();
  }
}

}  // namespace kerf::apps
