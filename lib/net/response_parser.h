// Reads one HTTP/1.1 response from bytes as they come from a socket, and hands the body on without copying or
// collecting it. Pure: no socket, no clock. A peer is not trusted: head, trailers and chunk lines are bounded, and
// anything ambiguous (two lengths, a length that is no number, a cut body) is a failure rather than a guess.
//
// Used by DirectClient for watches and large lists. One response per object; not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/net/http.h"

namespace paceline::net {

class ResponseParser {
 public:
  // The answer to HEAD and to CONNECT (when 2xx) has no body whatever its headers say.
  enum class Body { kAsFramed, kNone };

  explicit ResponseParser(Body body = Body::kAsFramed) : body_(body) {}

  // Takes bytes up to the end of the response and returns how many; fewer than given only when done(). Body bytes go to
  // `consumer` as views into `input`; response() is complete but for its body by then. kUnavailable when the bytes are
  // not HTTP; a non-ok return of `consumer` is passed on. After a failure the object must not be used again.
  Result<size_t> Feed(std::string_view input, const BodyConsumer& consumer);

  // To be called when the peer closed the connection: ok when the body was to end like that (then done()), else
  // kUnavailable.
  Status FeedEnd();

  bool has_head() const { return state_ != State::kStatusLine && state_ != State::kHeaders; }
  bool done() const { return state_ == State::kDone; }
  // Whether the connection may carry another request; valid when done().
  bool keeps_alive() const { return keeps_alive_; }
  const HttpResponse& response() const { return response_; }
  HttpResponse TakeResponse() { return std::move(response_); }

 private:
  enum class State {
    kStatusLine,
    kHeaders,
    kSizedBody,
    kBodyToEnd,
    kChunkSize,
    kChunkData,
    kChunkEnd,
    kTrailers,
    kDone,
  };

  bool IsLineState() const {
    return state_ != State::kSizedBody && state_ != State::kBodyToEnd && state_ != State::kChunkData;
  }
  // Moves bytes up to and with '\n' from `input` to line_; true when the line is complete (then without its end).
  Result<bool> TakeLine(std::string_view* input);
  Status OnLine();
  Status OnStatusLine();
  Status OnHeaderLine();
  Status OnHeadEnd();
  Status OnChunkSize();
  Status TakeBody(std::string_view* input, const BodyConsumer& consumer);

  const Body body_;
  State state_ = State::kStatusLine;
  HttpResponse response_;
  std::string line_;
  size_t head_bytes_ = 0;   // of status line, headers and trailers so far
  uint64_t remaining_ = 0;  // of a sized body or of the current chunk
  bool is_http_1_0_ = false;
  bool keeps_alive_ = true;
};

}  // namespace paceline::net
