namespace paceline {
namespace {

using Body = long;  // BAD
using Text = const char*;
constexpr int kLimit = 3;  // BAD
struct Part {  // BAD
  int a = 0;
};
int Twice(int other) { return 2 * other; }  // BAD
int Name(const char* text) { return text[0]; }

}  // namespace

int Twice(long value) { return 2; }

}  // namespace paceline
