// A pull reader for JSON text that is all in memory: the caller asks for what it wants and skips the rest, so that
// decoding ten fields out of seven kilobytes makes no tree and hardly any allocation. Grammar and depth are checked on
// everything that is read or skipped; UTF-8 is passed through. Pure; safe on untrusted bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace paceline::kube {

// Every function returns false once the text has turned out malformed; ok() then is false, and stays so.
class JsonReader {
 public:
  enum class Kind { kObject, kArray, kString, kNumber, kBool, kNull, kNone };

  explicit JsonReader(std::string_view text) : text_(text) {}

  // What comes next; kNone at the end and for anything that starts no value.
  Kind Peek();

  // for (reader.EnterObject(); reader.NextKey(&key);) { read or Skip the value }
  bool EnterObject();
  // False after the last member too. `key` is valid until the next NextKey of any object.
  bool NextKey(std::string_view* key);
  // for (reader.EnterArray(); reader.NextElement();) { read or Skip the element }
  bool EnterArray();
  bool NextElement();

  // `text` without quotes and escapes, valid until the next ReadString.
  bool ReadString(std::string_view* text);
  // Whole numbers that fit; 1.0 and 1e3 are refused.
  bool ReadInteger(int64_t* value);
  bool ReadBool(bool* value);
  // Skips one value; `raw`, when given, becomes its text as it stands.
  bool Skip(std::string_view* raw = nullptr);
  // True when nothing but white space is left.
  bool AtEnd();

  bool ok() const { return is_ok_; }
  size_t offset() const { return at_; }

 private:
  static constexpr int kDeepest = 256;

  bool Fail();
  void SkipSpace();
  bool Expect(char c);
  // Before a member or element: consumes the comma, or `close` and returns false.
  bool NextItem(char close);
  bool Enter(char open);
  bool ScanString(std::string_view* raw, bool* has_escapes);
  bool TakeText(std::string* scratch, std::string_view* text);
  bool Unescape(std::string_view raw, std::string* out);
  bool SkipNumber();
  bool SkipWord(std::string_view word);

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  bool is_first_ = false;  // the container just entered has had no item yet
  bool is_ok_ = true;
  std::string key_scratch_;
  std::string string_scratch_;
};

}  // namespace paceline::kube
