#include "lib/kube/wire_json.h"

#include <array>
#include <charconv>

namespace paceline::kube {
namespace {

// Bytes that end the plain run of a string: the quote, the backslash, and control characters, which may not stand
// there.
constexpr std::array<bool, 256> kEndsRun = [] {
  std::array<bool, 256> table{};
  for (int c = 0; c < 0x20; ++c) table[c] = true;
  table['"'] = table['\\'] = true;
  return table;
}();

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

void AppendUtf8(uint32_t code, std::string* out) {
  if (code < 0x80) {
    *out += static_cast<char>(code);
  } else if (code < 0x800) {
    *out += static_cast<char>(0xc0 | code >> 6);
    *out += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    *out += static_cast<char>(0xe0 | code >> 12);
    *out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    *out += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    *out += static_cast<char>(0xf0 | code >> 18);
    *out += static_cast<char>(0x80 | (code >> 12 & 0x3f));
    *out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    *out += static_cast<char>(0x80 | (code & 0x3f));
  }
}

// Four hexadecimal digits at `at`, or -1.
int32_t HexAt(std::string_view text, size_t at) {
  if (at + 4 > text.size()) return -1;
  uint32_t code = 0;
  const char* end = text.data() + at + 4;
  auto [stopped, error] = std::from_chars(text.data() + at, end, code, 16);
  return error == std::errc() && stopped == end ? static_cast<int32_t>(code) : -1;
}

// The code point of the \uXXXX whose digits are at `*at`, moved past it; a pair of surrogates is one. Half a pair
// stands for nothing and becomes U+FFFD, as in Go. -1 when there are no four digits.
int32_t TakeCodePoint(std::string_view raw, size_t* at) {
  const int32_t code = HexAt(raw, *at);
  if (code < 0) return -1;
  *at += 4;
  if (code < 0xd800 || code > 0xdfff) return code;
  if (code <= 0xdbff && raw.substr(*at, 2) == "\\u") {
    const int32_t low = HexAt(raw, *at + 2);
    if (low >= 0xdc00 && low <= 0xdfff) {
      *at += 6;
      return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
  }
  return 0xfffd;
}

}  // namespace

bool JsonReader::Fail() {
  is_ok_ = false;
  at_ = text_.size();
  return false;
}

void JsonReader::SkipSpace() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') return;
    ++at_;
  }
}

bool JsonReader::Expect(char c) {
  SkipSpace();
  if (at_ >= text_.size() || text_[at_] != c) return Fail();
  ++at_;
  return true;
}

JsonReader::Kind JsonReader::Peek() {
  SkipSpace();
  if (at_ >= text_.size()) return Kind::kNone;
  switch (text_[at_]) {
    case '{': return Kind::kObject;
    case '[': return Kind::kArray;
    case '"': return Kind::kString;
    case 't':
    case 'f': return Kind::kBool;
    case 'n': return Kind::kNull;
    default: return text_[at_] == '-' || IsDigit(text_[at_]) ? Kind::kNumber : Kind::kNone;
  }
}

bool JsonReader::Enter(char open) {
  if (!Expect(open)) return false;
  if (++depth_ > kDeepest) return Fail();
  is_first_ = true;
  return true;
}

bool JsonReader::EnterObject() { return Enter('{'); }
bool JsonReader::EnterArray() { return Enter('['); }

bool JsonReader::NextItem(char close) {
  if (!is_ok_) return false;
  SkipSpace();
  if (at_ < text_.size() && text_[at_] == close) {
    ++at_;
    --depth_;
    is_first_ = false;
    return false;
  }
  if (is_first_) {
    is_first_ = false;
    return true;
  }
  return Expect(',');
}

bool JsonReader::NextKey(std::string_view* key) { return NextItem('}') && TakeText(&key_scratch_, key) && Expect(':'); }

bool JsonReader::NextElement() { return NextItem(']'); }

bool JsonReader::ScanString(std::string_view* raw, bool* has_escapes) {
  if (!Expect('"')) return false;
  const size_t begin = at_;
  *has_escapes = false;
  while (at_ < text_.size()) {
    const unsigned char c = static_cast<unsigned char>(text_[at_]);
    if (!kEndsRun[c]) {
      ++at_;
    } else if (c == '"') {
      *raw = text_.substr(begin, at_ - begin);
      ++at_;
      return true;
    } else if (c == '\\') {
      *has_escapes = true;
      at_ += 2;
    } else {
      return Fail();
    }
  }
  return Fail();
}

bool JsonReader::Unescape(std::string_view raw, std::string* out) {
  out->clear();
  for (size_t i = 0; i < raw.size();) {
    const size_t run = raw.find('\\', i);
    out->append(raw.substr(i, run - i));
    if (run == std::string_view::npos) break;
    if (run + 1 >= raw.size()) return false;
    i = run + 2;
    switch (raw[run + 1]) {
      case '"': *out += '"'; break;
      case '\\': *out += '\\'; break;
      case '/': *out += '/'; break;
      case 'b': *out += '\b'; break;
      case 'f': *out += '\f'; break;
      case 'n': *out += '\n'; break;
      case 'r': *out += '\r'; break;
      case 't': *out += '\t'; break;
      case 'u': {
        const int32_t code = TakeCodePoint(raw, &i);
        if (code < 0) return false;
        AppendUtf8(static_cast<uint32_t>(code), out);
        break;
      }
      default: return false;
    }
  }
  return true;
}

bool JsonReader::TakeText(std::string* scratch, std::string_view* text) {
  bool has_escapes = false;
  if (!ScanString(text, &has_escapes)) return false;
  if (!has_escapes) return true;
  if (!Unescape(*text, scratch)) return Fail();
  *text = *scratch;
  return true;
}

bool JsonReader::ReadString(std::string_view* text) {
  is_first_ = false;
  return TakeText(&string_scratch_, text);
}

bool JsonReader::ReadInteger(int64_t* value) {
  SkipSpace();
  const size_t begin = at_;
  if (!SkipNumber()) return false;
  auto [stopped, error] = std::from_chars(text_.data() + begin, text_.data() + at_, *value);
  return (error == std::errc() && stopped == text_.data() + at_) || Fail();
}

bool JsonReader::ReadBool(bool* value) {
  SkipSpace();
  *value = at_ < text_.size() && text_[at_] == 't';
  return SkipWord(*value ? "true" : "false");
}

bool JsonReader::SkipWord(std::string_view word) {
  if (text_.substr(at_, word.size()) != word) return Fail();
  at_ += word.size();
  return true;
}

bool JsonReader::SkipNumber() {
  if (at_ < text_.size() && text_[at_] == '-') ++at_;
  const auto digits = [this] {
    const size_t begin = at_;
    while (at_ < text_.size() && IsDigit(text_[at_])) ++at_;
    return at_ > begin;
  };
  const size_t whole = at_;
  if (!digits() || (text_[whole] == '0' && at_ - whole > 1)) return Fail();
  if (at_ < text_.size() && text_[at_] == '.') {
    ++at_;
    if (!digits()) return Fail();
  }
  if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
    ++at_;
    if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
    if (!digits()) return Fail();
  }
  return true;
}

bool JsonReader::Skip(std::string_view* raw) {
  const Kind kind = Peek();
  const size_t begin = at_;
  std::string_view ignored;
  bool has_escapes = false;
  switch (kind) {
    case Kind::kObject:
      for (EnterObject(); NextKey(&ignored);) Skip();
      break;
    case Kind::kArray:
      for (EnterArray(); NextElement();) Skip();
      break;
    case Kind::kString: ScanString(&ignored, &has_escapes); break;
    case Kind::kNumber: SkipNumber(); break;
    case Kind::kBool: SkipWord(text_[at_] == 't' ? "true" : "false"); break;
    case Kind::kNull: SkipWord("null"); break;
    case Kind::kNone: Fail(); break;
  }
  if (is_ok_ && raw != nullptr) *raw = text_.substr(begin, at_ - begin);
  return is_ok_;
}

bool JsonReader::AtEnd() {
  SkipSpace();
  return is_ok_ && at_ == text_.size();
}

}  // namespace paceline::kube
