// Text of cached objects: immutable, shared, 8 bytes in the struct. Tens of thousands of pods repeat the same
// namespaces, node names, label keys and images, so the decoders take such texts from a StringPool, which keeps one
// copy of each.
//
// SharedString may be copied and destroyed on any thread. StringPool belongs to one decoder and is used by one thread
// at a time; strings taken from it outlive it.
#pragma once

#include <atomic>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paceline::kube {

class SharedString {
 public:
  SharedString() = default;  // empty, no allocation
  template <typename Text>
  requires(std::convertible_to<const Text&, std::string_view> && !std::same_as<Text, SharedString>)
      SharedString(const Text& text)  // NOLINT(google-explicit-constructor): a text by another name
      : SharedString(Copy{}, std::string_view(text)) {}
  SharedString(const SharedString& other) : rep_(other.rep_) {
    // Relaxed: the new reference is made from one that is held, so nothing can be freed meanwhile.
    if (rep_ != nullptr) rep_->references.fetch_add(1, std::memory_order_relaxed);
  }
  SharedString(SharedString&& other) noexcept : rep_(std::exchange(other.rep_, nullptr)) {}
  SharedString& operator=(SharedString other) noexcept {
    std::swap(rep_, other.rep_);
    return *this;
  }
  ~SharedString() { Release(); }

  operator std::string_view() const { return view(); }  // NOLINT(google-explicit-constructor)
  std::string_view view() const {
    return rep_ == nullptr ? std::string_view() : std::string_view(Data(rep_), rep_->size);
  }
  std::string str() const { return std::string(view()); }
  bool empty() const { return rep_ == nullptr; }
  size_t size() const { return rep_ == nullptr ? 0 : rep_->size; }

  template <typename Text>
  requires std::convertible_to<const Text&, std::string_view>
  friend bool operator==(const SharedString& a, const Text& b) { return a.view() == std::string_view(b); }
  template <typename Text>
  requires std::convertible_to<const Text&, std::string_view>
  friend std::strong_ordering operator<=>(const SharedString& a, const Text& b) {
    return a.view() <=> std::string_view(b);
  }
  friend std::ostream& operator<<(std::ostream& out, const SharedString& text);

 private:
  friend class StringPool;
  struct Copy {};
  struct Rep {  // followed by the bytes
    std::atomic<uint32_t> references;
    uint32_t size;
    size_t hash;  // kept by the pool, 0 outside of one
  };

  SharedString(Copy, std::string_view text);
  explicit SharedString(Rep* rep) : rep_(rep) {}
  static Rep* NewRep(std::string_view text, size_t hash);
  static const char* Data(const Rep* rep) { return reinterpret_cast<const char*>(rep + 1); }
  void Release();

  Rep* rep_ = nullptr;
};

// Hash and equality for unordered containers that are searched by string_view.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  size_t operator()(const SharedString& text) const { return std::hash<std::string_view>()(text.view()); }
};
struct TextEqual {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const { return a == b; }
};

class StringPool {
 public:
  StringPool() = default;
  StringPool(const StringPool&) = delete;
  StringPool& operator=(const StringPool&) = delete;

  // The pooled copy of `text`, made on first use. Texts longer than 256 bytes are not worth looking up: they are
  // copied.
  SharedString Intern(std::string_view text);
  // Drops texts that nobody else holds. Called by itself whenever the pool has doubled since the last sweep.
  void Sweep();
  size_t size() const { return count_; }

 private:
  void Rehash(size_t slots);

  std::vector<SharedString> slots_;  // open addressing, a power of two, at most half full
  size_t count_ = 0;
  size_t sweep_at_ = 1024;
};

}  // namespace paceline::kube
