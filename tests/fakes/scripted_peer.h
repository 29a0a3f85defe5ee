// The other end of a TCP connection, on loopback and a port of its own, that does what a test tells it: serves truly,
// answers nonsense, cuts, or says nothing at all. For every protocol whose client is tested without its server.
//
// Each connection is served by a thread of its own, which runs the test's function; functions that share state lock it
// themselves. Destruction cuts every connection and waits for the threads.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "lib/base/mutex.h"
#include "lib/base/unique_fd.h"

namespace paceline::fakes {

class ScriptedPeer {
 public:
  // One connection. Used by its own thread; Cut from any.
  class Link {
   public:
    explicit Link(UniqueFd fd) : fd_(std::move(fd)) {}
    // Exactly `bytes`; nothing when the connection ends before.
    std::optional<std::string> Read(size_t bytes);
    // What has come, at least one byte; empty at the end.
    std::string ReadSome();
    // Waits for nothing to come any more: the peer that takes connections and never answers.
    void AwaitEnd();
    // False when the connection is gone.
    bool Write(std::string_view bytes);
    void Cut();

   private:
    const UniqueFd fd_;
  };

  explicit ScriptedPeer(std::function<void(Link&)> serve);
  ~ScriptedPeer();

  uint16_t port() const { return port_; }
  // How many there have been so far.
  int connections() const EXCLUDES(mutex_);
  // Cuts those that are open; later ones are served as ever.
  void CutAll() EXCLUDES(mutex_);

 private:
  struct Session {
    std::shared_ptr<Link> link;
    std::jthread thread;
  };

  void Accept(std::stop_token stop);

  const std::function<void(Link&)> serve_;
  const UniqueFd listener_;
  uint16_t port_ = 0;
  mutable Mutex mutex_;
  std::list<Session> sessions_ GUARDED_BY(mutex_);
  std::jthread acceptor_;
};

}  // namespace paceline::fakes
