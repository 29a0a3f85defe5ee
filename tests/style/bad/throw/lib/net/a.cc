void F() {
  throw std::runtime_error("no");  // BAD
}
// Nothing here may throw.
