namespace paceline {
namespace {

using Body = int;
using Text = const char*;
constexpr int kLimit = 3;
struct Part {
  int a = 0;
};
int Twice(int value) { return 2 * value; }
int Name(int value) { return value; }

}  // namespace
}  // namespace paceline
