#include "lib/blocks/registry/toml_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/utf8.h"

namespace paceline::blocks {
namespace {

using Value = nlohmann::ordered_json;

constexpr int kMaxDepth = 16;

bool IsBareKeyCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; }

class TomlReader {
 public:
  explicit TomlReader(std::string_view text) : text_(text) {}

  Result<Value> Read() {
    Value root = Value::object();
    Value* table = &root;
    while (SkipToContent()) {
      if (Peek() == '[') {
        RETURN_IF_ERROR(ReadHeader(&root, &table));
      } else {
        RETURN_IF_ERROR(ReadAssignment(table, 0));
      }
      RETURN_IF_ERROR(EndLine());
    }
    return root;
  }

 private:
  Status Fail(std::string_view why) const { return InvalidArgumentError(fmt::format("line {}: {}", line_, why)); }

  bool at_end() const { return at_ >= text_.size(); }
  char Peek() const { return at_end() ? '\0' : text_[at_]; }
  bool Take(char c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void SkipBlanks() {
    while (!at_end() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  void SkipComment() {
    if (Peek() != '#') return;
    while (!at_end() && text_[at_] != '\n') ++at_;
  }
  bool TakeNewline() {
    const size_t start = at_;
    Take('\r');
    if (Take('\n')) {
      ++line_;
      return true;
    }
    at_ = start;
    return false;
  }
  // Over blanks, comments and line ends; false at the end of the text.
  bool SkipToContent() {
    do {
      SkipBlanks();
      SkipComment();
    } while (TakeNewline());
    return !at_end();
  }
  Status EndLine() {
    SkipBlanks();
    SkipComment();
    return at_end() || TakeNewline() ? Status() : Fail("unexpected text behind the value");
  }

  // [a.b."c"]
  Status ReadHeader(Value* root, Value** table) {
    Take('[');
    if (Peek() == '[') return Fail("arrays of tables are not read");
    std::vector<std::string> path;
    RETURN_IF_ERROR(ReadKey(&path));
    if (!Take(']')) return Fail("a table's name ends with ]");
    Value* at = root;
    for (const std::string& part : path) {
      Value& next = (*at)[part];
      if (next.is_null()) next = Value::object();
      if (!next.is_object()) return Fail(fmt::format("{} is no table", part));
      at = &next;
    }
    *table = at;
    return Status();
  }

  // a.b = value
  Status ReadAssignment(Value* table, int depth) {
    std::vector<std::string> path;
    RETURN_IF_ERROR(ReadKey(&path));
    if (!Take('=')) return Fail("a key is followed by =");
    SkipBlanks();
    for (size_t i = 0; i + 1 < path.size(); ++i) {
      Value& next = (*table)[path[i]];
      if (next.is_null()) next = Value::object();
      if (!next.is_object()) return Fail(fmt::format("{} is no table", path[i]));
      table = &next;
    }
    if (table->contains(path.back())) return Fail(fmt::format("{} is given twice", path.back()));
    Value value;
    RETURN_IF_ERROR(ReadValue(&value, depth));
    (*table)[path.back()] = std::move(value);
    return Status();
  }

  // Ends behind the blanks that follow.
  Status ReadKey(std::vector<std::string>* path) {
    do {
      if (path->size() >= kMaxDepth) return Fail("too many parts in a key");
      SkipBlanks();
      std::string part;
      if (Peek() == '"' || Peek() == '\'') {
        RETURN_IF_ERROR(ReadString(&part));
      } else {
        while (!at_end() && IsBareKeyCharacter(text_[at_])) part += text_[at_++];
        if (part.empty()) return Fail("a key is expected");
      }
      path->push_back(std::move(part));
      SkipBlanks();
    } while (Take('.'));
    return Status();
  }

  Status ReadValue(Value* value, int depth) {
    if (depth > kMaxDepth) return Fail("nested too deeply");
    const char first = Peek();
    if (first == '"' || first == '\'') {
      std::string text;
      RETURN_IF_ERROR(ReadString(&text));
      *value = std::move(text);
      return Status();
    }
    if (first == '[') return ReadArray(value, depth);
    if (first == '{') return ReadInlineTable(value, depth);
    std::string word;
    while (!at_end() && (IsBareKeyCharacter(text_[at_]) || text_[at_] == '+' || text_[at_] == '.'))
      word += text_[at_++];
    if (word == "true" || word == "false") {
      *value = word == "true";
      return Status();
    }
    return ReadNumber(word, value);
  }

  Status ReadNumber(std::string word, Value* value) const {
    word.erase(std::remove(word.begin(), word.end(), '_'), word.end());
    const char* const begin = word.data() + (word.starts_with('+') ? 1 : 0);
    const char* const end = word.data() + word.size();
    int64_t whole = 0;
    double number = 0;
    if (const auto read = std::from_chars(begin, end, whole);
        read.ec == std::errc() && read.ptr == end && begin < end) {
      *value = whole;
    } else if (const auto other = std::from_chars(begin, end, number);
               other.ec == std::errc() && other.ptr == end && begin < end) {
      *value = number;
    } else {
      return Fail(word.empty() ? "a value is expected" : "neither a string, true, false nor a number");
    }
    return Status();
  }

  Status ReadArray(Value* value, int depth) {
    Take('[');
    *value = Value::array();
    while (true) {
      if (!SkipToContent()) return Fail("an array without its ]");
      if (Take(']')) return Status();
      Value item;
      RETURN_IF_ERROR(ReadValue(&item, depth + 1));
      value->push_back(std::move(item));
      if (!SkipToContent()) return Fail("an array without its ]");
      if (!Take(',') && Peek() != ']') return Fail("items of an array are divided by ,");
    }
  }

  Status ReadInlineTable(Value* value, int depth) {
    Take('{');
    *value = Value::object();
    SkipBlanks();
    if (Take('}')) return Status();
    do {
      SkipBlanks();
      RETURN_IF_ERROR(ReadAssignment(value, depth + 1));
      SkipBlanks();
    } while (Take(','));
    return Take('}') ? Status() : Fail("an inline table without its }");
  }

  Status ReadString(std::string* out) {
    const char quote = text_[at_++];
    if (text_.substr(at_).starts_with(std::string(2, quote))) return Fail("strings over several lines are not read");
    while (!at_end() && text_[at_] != '\n') {
      const char c = text_[at_++];
      if (c == quote) return IsValidUtf8(*out) ? Status() : Fail("a string that is not UTF-8");
      if (c != '\\' || quote == '\'') {
        *out += c;
        continue;
      }
      RETURN_IF_ERROR(ReadEscape(out));
    }
    return Fail("a string without its closing quote");
  }

  Status ReadEscape(std::string* out) {
    constexpr std::string_view kFrom = "btnfre\"\\", kTo = "\b\t\n\f\r\x1b\"\\";
    const char c = Peek();
    ++at_;
    if (const size_t known = kFrom.find(c); known != std::string_view::npos && c != '\0') {
      *out += kTo[known];
      return Status();
    }
    const size_t digits = c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t code = 0;
    const std::string_view hex = at_ < text_.size() ? text_.substr(at_, digits) : std::string_view();
    const auto read = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
    const bool is_code = digits > 0 && hex.size() == digits && read.ec == std::errc() &&
                         read.ptr == hex.data() + digits && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    if (!is_code) return Fail("an escape that TOML does not have");
    at_ += digits;
    AppendUtf8(code, out);
    return Status();
  }

  static void AppendUtf8(uint32_t code, std::string* out) {
    if (code < 0x80) {
      *out += static_cast<char>(code);
      return;
    }
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    constexpr uint8_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
    *out += static_cast<char>(kLead[more] | (code >> (6 * more)));
    for (int i = more - 1; i >= 0; --i) *out += static_cast<char>(0x80 | ((code >> (6 * i)) & 0x3F));
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

Result<nlohmann::ordered_json> ParseToml(std::string_view text) { return TomlReader(text).Read(); }

}  // namespace paceline::blocks
