#include "lib/kube/wire_string.h"

#include <cstring>
#include <new>
#include <ostream>

#include "lib/base/check.h"

namespace paceline::kube {
namespace {

constexpr size_t kLongestPooledBytes = 256;
constexpr size_t kFirstSlots = 1024;

size_t HashOf(std::string_view text) { return std::hash<std::string_view>()(text); }

}  // namespace

SharedString::SharedString(Copy, std::string_view text) {
  if (!text.empty()) rep_ = NewRep(text, 0);
}

SharedString::Rep* SharedString::NewRep(std::string_view text, size_t hash) {
  CHECK(text.size() <= UINT32_MAX);
  void* memory = ::operator new(sizeof(Rep) + text.size());
  Rep* rep = new (memory) Rep{{1}, static_cast<uint32_t>(text.size()), hash};
  std::memcpy(reinterpret_cast<char*>(rep + 1), text.data(), text.size());
  return rep;
}

void SharedString::Release() {
  // Acquire-release: the thread that frees must see what the others did before they let go.
  if (rep_ != nullptr && rep_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    rep_->~Rep();
    ::operator delete(rep_);
  }
}

std::ostream& operator<<(std::ostream& out, const SharedString& text) { return out << text.view(); }

SharedString StringPool::Intern(std::string_view text) {
  if (text.empty()) return {};
  if (text.size() > kLongestPooledBytes) return SharedString(text);
  if (slots_.empty()) slots_.resize(kFirstSlots);
  if (count_ >= sweep_at_) Sweep();
  if ((count_ + 1) * 2 > slots_.size()) Rehash(slots_.size() * 2);
  const size_t hash = HashOf(text);
  size_t slot = hash & (slots_.size() - 1);
  while (!slots_[slot].empty()) {
    if (slots_[slot].rep_->hash == hash && slots_[slot].view() == text) return slots_[slot];
    slot = (slot + 1) & (slots_.size() - 1);
  }
  slots_[slot] = SharedString(SharedString::NewRep(text, hash));
  ++count_;
  return slots_[slot];
}

void StringPool::Sweep() {
  for (SharedString& slot : slots_) {
    // Relaxed: a count of one is ours, and nobody can copy from a reference that only we hold.
    if (slot.empty() || slot.rep_->references.load(std::memory_order_relaxed) != 1) continue;
    slot = {};
    --count_;
  }
  size_t slots = kFirstSlots;
  while (slots < count_ * 2 + 2) slots *= 2;
  Rehash(slots);
  sweep_at_ = std::max<size_t>(count_ * 2, 1024);
}

void StringPool::Rehash(size_t slots) {
  std::vector<SharedString> old(slots);
  old.swap(slots_);
  for (SharedString& text : old) {
    if (text.empty()) continue;
    size_t slot = text.rep_->hash & (slots - 1);
    while (!slots_[slot].empty()) slot = (slot + 1) & (slots - 1);
    slots_[slot] = std::move(text);
  }
}

}  // namespace paceline::kube
