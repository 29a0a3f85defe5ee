// Either a value or the Status that says why there is none. C++20 has no std::expected, and the tracer, which is loaded
// into foreign processes, cannot bring an absl of its own: docs/decisions/0001-own-result.md.
#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/status.h"

namespace paceline {

// Not thread-safe by itself, like any value.
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(Status status)
      : status_(std::move(status)) {  // NOLINT(google-explicit-constructor): `return status;` must work
    CHECK(!status_.ok());             // an ok Status without a value would be a half-made Result
  }
  Result(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor): `return value;` must work
  template <typename U, typename = std::enable_if_t<
                            std::is_convertible_v<U&&, T> && !std::is_same_v<std::decay_t<U>, T> &&
                            !std::is_same_v<std::decay_t<U>, Status> && !std::is_same_v<std::decay_t<U>, Result<T>>>>
  Result(U&& value) : value_(std::forward<U>(value)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // Only when ok(); anything else is a bug and ends the process.
  const T& value() const& {
    CHECK(ok());
    return *value_;
  }
  T& value() & {
    CHECK(ok());
    return *value_;
  }
  T&& value() && {
    CHECK(ok());
    return std::move(*value_);
  }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

  T value_or(T fallback) const& { return ok() ? *value_ : std::move(fallback); }

  // The same value, or the Status with "context: " in front.
  Result Annotate(std::string_view context) && {
    if (ok()) return std::move(*this);
    return status_.Annotate(context);
  }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace paceline

#define PACELINE_CONCAT_INNER(a, b) a##b
#define PACELINE_CONCAT(a, b) PACELINE_CONCAT_INNER(a, b)
#define PACELINE_ASSIGN_OR_RETURN(result, target, expression) \
  auto result = (expression);                                 \
  if (!result.ok()) return result.status();                   \
  target = std::move(result).value()

// ASSIGN_OR_RETURN(auto pod, client.Get(...)): assigns the value, or leaves the function with the Status.
#define ASSIGN_OR_RETURN(target, expression) \
  PACELINE_ASSIGN_OR_RETURN(PACELINE_CONCAT(paceline_result_, __LINE__), target, expression)
