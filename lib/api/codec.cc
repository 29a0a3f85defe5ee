#include "lib/api/codec.h"

#include <algorithm>

#include "lib/api/codec_impl.h"
#include "lib/api/crd.h"
#include "lib/base/utf8.h"

namespace paceline::api {

namespace {

constexpr size_t kMaxJsonBytes = 3 * 1024 * 1024;
constexpr int kMaxJsonDepth = 128;

// The deepest nesting of brackets outside of strings; enough to refuse a text before a parser builds a tree of it.
int NestingDepth(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool is_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_string) {
      if (c == '\\') ++i;
      if (c == '"') is_string = false;
    } else if (c == '"') {
      is_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

void CheckTypeMeta(ReadContext& context, const Json& object, const KindInfo& kind) {
  const auto check = [&](const char* key, std::string_view wanted) {
    const auto found = object.find(key);
    if (found == object.end() || *found == std::string(wanted)) return;
    FieldPath::Scope scope(context.errors.path, key);
    context.errors.Add("must be " + std::string(wanted));
  };
  check("apiVersion", kApiVersion);
  check("kind", kind.kind);
}

Result<Json> CustomResourceDefinition(std::string_view kind) {
  for (const KindInfo& known : kAllKinds) {
    if (known.kind == kind) return Json(MakeCrd(known));
  }
  return NotFoundError("kind " + std::string(kind) + " is not one of " + std::string(kGroup));
}

Result<Json> ParseJson(std::string_view text) {
  if (text.size() > kMaxJsonBytes) return InvalidArgumentError("must be at most 3 MiB of JSON");
  if (NestingDepth(text) > kMaxJsonDepth) return InvalidArgumentError("must be nested at most 128 levels deep");
  Json parsed = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) {
    return InvalidArgumentError(IsValidUtf8(text) ? "must be JSON" : "must be JSON in UTF-8");
  }
  return parsed;
}

}  // namespace paceline::api
