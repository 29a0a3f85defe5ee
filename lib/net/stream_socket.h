// A TCP connection, with TLS when asked for, whose every wait is bounded by a WaitLimit: the blocking calls of this
// project end at their deadline or stop request without a thread of their own. Internal to lib/net.
//
// Used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/unique_fd.h"
#include "lib/net/wait_limit.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace paceline::net {

class StreamSocket {
 public:
  // Resolves `host` (a name or an IP literal without brackets) and connects to the first address that answers.
  // kUnavailable when none does by `connect_by`; what WaitLimit says otherwise.
  static Result<std::unique_ptr<StreamSocket>> Connect(const std::string& host, uint16_t port, const WaitLimit& limit,
                                                       TimePoint connect_by);
  ~StreamSocket();

  // The client's handshake. `verified_name` is sent as SNI unless it is an address; what is verified is in `context`.
  // kUnavailable with the reason when the peer is not trusted.
  Status StartTls(std::shared_ptr<ssl_ctx_st> context, const std::string& verified_name, const WaitLimit& limit,
                  TimePoint connect_by);

  // Reads what is there, at least one byte; 0 when the peer ended the stream properly (with close_notify under TLS).
  // kUnavailable for a reset, a cut, or no byte until `silence_ends`.
  Result<size_t> Read(char* out, size_t size, const WaitLimit& limit, TimePoint silence_ends);
  // Writes everything, under the same rules.
  Status Write(std::string_view data, const WaitLimit& limit, TimePoint silence_ends);

  // Whether an idle connection can carry a request: open, and nothing unasked has come in. Does not block.
  bool IsIdleAndOpen();

 private:
  struct Tls;

  explicit StreamSocket(UniqueFd fd);
  Result<size_t> ReadPlain(char* out, size_t size, const WaitLimit& limit, TimePoint silence_ends);
  Result<size_t> ReadTls(char* out, size_t size, const WaitLimit& limit, TimePoint silence_ends);
  Status WriteTls(std::string_view data, const WaitLimit& limit, TimePoint silence_ends);
  // After a TLS call that returned `result` <= 0: waits for what it needs and returns ok, or the failure. Sets
  // `*ended` when the peer ended the stream properly.
  Status AfterTlsCall(int result, const WaitLimit& limit, TimePoint silence_ends, bool* ended);

  UniqueFd fd_;
  std::unique_ptr<Tls> tls_;
};

}  // namespace paceline::net
