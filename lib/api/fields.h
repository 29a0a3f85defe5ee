// The vocabulary of the field descriptions. Each struct of the API has one function
//
//   template <typename V> void Fields(V& v, const Checkpoint*) {
//     v.Field("name", &Checkpoint::name, {.doc = "...", .required = true});
//     v.Rule("self.a < self.b", "must ...", "b", [](const Checkpoint& c) { return c.a < c.b; });
//   }
//
// that names its fields in order; visitors read JSON (field_reader.h), write it (field_writer.h), check limits
// (field_checker.h) and make the CRD's schema (field_schema.h). Internal to lib/api: the public face is codec.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lib/api/meta.h"

namespace paceline::api {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

enum class TextFormat {
  kPlain,
  kQuantity,       // a Kubernetes quantity; integers are accepted too
  kCountOrPercent  // "3" or "10%"; integers are accepted too
};

enum class ListType { kAtomic, kSet, kMap };

// What is true of one field. Limits hold for the value, for the items of a list of texts, and for the values of a map.
struct FieldSpec {
  std::string_view doc;
  bool required = false;
  bool defaulted = false;  // the default is the value in a default-constructed struct
  bool omit_zero = false;  // zero means "not known" and is not written
  std::optional<double> minimum;
  std::optional<double> maximum;
  std::optional<int64_t> max_length;
  std::optional<int64_t> max_items;  // of lists and maps
  std::string_view pattern;          // a regular expression that RE2 and ECMAScript read alike
  std::string_view pattern_words;    // what the pattern asks for: "must ..."
  TextFormat format = TextFormat::kPlain;
  ListType list = ListType::kAtomic;
  std::string_view list_key;  // with kMap
};

// The texts of an enumeration; specialised beside each enum: static constexpr std::pair<E, std::string_view>
// kEntries[].
template <typename E>
struct EnumTable;

template <typename E>
std::string_view EnumText(E value) {
  for (const auto& [entry, text] : EnumTable<E>::kEntries) {
    if (entry == value) return text;
  }
  return "Unknown";
}

template <typename E>
std::optional<E> EnumValue(std::string_view text) {
  for (const auto& [entry, name] : EnumTable<E>::kEntries) {
    if (name == text) return entry;
  }
  return std::nullopt;
}

// "Never, OnFailure"
template <typename E>
std::string EnumChoices() {
  std::string all;
  for (const auto& [entry, text] : EnumTable<E>::kEntries) {
    if (!all.empty()) all += ", ";
    all += text;
  }
  return all;
}

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

using TextMap = std::map<std::string, std::string>;
using OpaqueJson = std::shared_ptr<const Json>;

template <typename T>
inline constexpr bool kIsStruct =
    std::is_class_v<T> && !IsOptional<T>::value && !IsVector<T>::value && !std::is_same_v<T, std::string> &&
    !std::is_same_v<T, WallTime> && !std::is_same_v<T, Duration> && !std::is_same_v<T, TextMap> &&
    !std::is_same_v<T, OpaqueJson>;

// The path of the field under work, "spec.checkpoints[1].uri"; scopes nest.
class FieldPath {
 public:
  class Scope {
   public:
    Scope(FieldPath& path, std::string_view field);
    Scope(FieldPath& path, size_t index);
    ~Scope() { path_.text_.resize(length_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    FieldPath& path_;
    size_t length_;
  };

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Errors with the path of where they were found; stops growing at a limit so that hostile input cannot fill memory.
class ErrorList {
 public:
  void Add(std::string message) { AddAt(path.text(), std::move(message)); }
  void AddAt(std::string where, std::string message);
  std::vector<FieldError> Take() { return std::move(errors_); }
  bool empty() const { return errors_.empty(); }

  FieldPath path;

 private:
  std::vector<FieldError> errors_;
};

// Text checks, not templates so that they are compiled once.
// "a whole number", "text", ... for messages.
std::string_view JsonTypeWords(const Json& value);
void CheckText(ErrorList& errors, const FieldSpec& spec, const std::string& text);
void CheckNumber(ErrorList& errors, const FieldSpec& spec, double value);
void CheckSize(ErrorList& errors, const FieldSpec& spec, size_t items);
// The entry of `known` that `name` was probably meant to be; empty when none is near.
std::string_view NearestName(std::string_view name, const std::vector<std::string_view>& known);
// Numbers as people write them: 3, 1.5.
std::string NumberText(double value);

}  // namespace paceline::api
