// An HttpTransport that answers from a script, for tests of what lists and watches. Each request takes the next reply;
// without one it waits, as a quiet watch does. Thread-safe.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/net/http.h"

namespace paceline::kube {

class ScriptedTransport final : public net::HttpTransport {
 public:
  struct Reply {
    int status = 200;
    std::string body;  // cut into pieces of `piece_bytes`
    size_t piece_bytes = 7;
    Status end;               // a failure of the connection after the body
    bool stays_open = false;  // the body does not end until Cut or stop
  };

  explicit ScriptedTransport(const Clock& clock) : clock_(clock) {}

  void Add(Reply reply) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    replies_.push_back(std::move(reply));
    changed_.NotifyAll();
  }
  // Ends the stream that is open now.
  void Cut(Status end) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    cut_ = std::move(end);
    is_cut_ = true;
    changed_.NotifyAll();
  }
  // Blocks until `count` requests have come, and gives their targets.
  std::vector<std::string> AwaitRequests(size_t count) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (requests_.size() < count) changed_.Wait(lock);
    return requests_;
  }
  // Blocks until `count` replies have been read to where they end or stay open.
  void AwaitReplies(size_t count) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (served_ < count) changed_.Wait(lock);
  }

  Result<net::HttpResponse> Send(const net::HttpRequest& request, Deadline deadline, std::stop_token stop) override {
    net::HttpResponse whole;
    Result<net::HttpResponse> response = Stream(
        request,
        [&whole](std::string_view piece) {
          whole.body.append(piece);
          return Status();
        },
        Duration::max(), deadline, std::move(stop));
    if (response.ok() && response->body.empty()) response->body = std::move(whole.body);
    return response;
  }

  Result<net::HttpResponse> Stream(const net::HttpRequest& request, const net::BodyConsumer& consumer, Duration,
                                   Deadline, std::stop_token stop) override EXCLUDES(mutex_) {
    Reply reply;
    {
      MutexLock lock(mutex_);
      requests_.push_back(request.method + " " + request.target);
      bodies_.push_back(request.body);
      changed_.NotifyAll();
      while (replies_.empty() && !stop.stop_requested()) changed_.WaitUntil(lock, clock_, TimePoint::max(), stop);
      if (replies_.empty()) return CancelledError("stopped");
      reply = std::move(replies_.front());
      replies_.pop_front();
    }
    net::HttpResponse response;
    response.status = reply.status;
    if (reply.status >= 300) {
      response.body = reply.body;
    } else {
      for (size_t at = 0; at < reply.body.size(); at += reply.piece_bytes) {
        RETURN_IF_ERROR(consumer(std::string_view(reply.body).substr(at, reply.piece_bytes)));
      }
    }
    MutexLock lock(mutex_);
    ++served_;
    changed_.NotifyAll();
    if (reply.stays_open) {
      while (!is_cut_ && !stop.stop_requested()) changed_.WaitUntil(lock, clock_, TimePoint::max(), stop);
      if (!is_cut_) return CancelledError("stopped");
      is_cut_ = false;
      reply.end = cut_;
    }
    if (!reply.end.ok()) return reply.end;
    return response;
  }

  std::vector<std::string> bodies() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return bodies_;
  }

 private:
  const Clock& clock_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Reply> replies_ GUARDED_BY(mutex_);
  std::vector<std::string> requests_ GUARDED_BY(mutex_);
  std::vector<std::string> bodies_ GUARDED_BY(mutex_);
  size_t served_ GUARDED_BY(mutex_) = 0;
  bool is_cut_ GUARDED_BY(mutex_) = false;
  Status cut_ GUARDED_BY(mutex_);
};

}  // namespace paceline::kube
