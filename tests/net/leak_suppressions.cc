// What LeakSanitizer shall not report of this program, read by its runtime: cpprestsdk's threads live as long as the
// process and keep their own OpenSSL state and connections. libcrypto has no frame pointers, so a report of it does not
// say whose it is; our own use of OpenSSL is held by unique_ptr (lib/net/openssl_handles.h) and runs in other suites
// too.
extern "C" const char* __lsan_default_suppressions();   // NOLINT(bugprone-reserved-identifier): the runtime's name
extern "C" const char* __lsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "leak:libcpprest.so\nleak:libcrypto.so\n";
}
