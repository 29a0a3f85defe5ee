void F() {
  try {
    G();
  } catch (const std::exception& error) {
  } catch (...) {  // BAD
  }
}
