namespace {

constexpr int kLimit = 3;

}  // namespace
