// The bodies of codec.h's templates. Each kind's source file includes this and its *_fields.h and instantiates them
// once, so that the visitors are compiled per kind and nowhere else. Internal to lib/api.
#pragma once

#include "lib/api/codec.h"
#include "lib/api/field_checker.h"
#include "lib/api/field_reader.h"
#include "lib/api/field_writer.h"

namespace paceline::api {

// Errors unless apiVersion and kind, where they are given, are those of `kind`.
void CheckTypeMeta(ReadContext& context, const Json& object, const KindInfo& kind);

template <typename T>
Result<T> FromJson(const Json& object, UnknownFields unknown) {
  ReadContext context;
  context.unknown = unknown;
  T out;
  if (object.is_object()) CheckTypeMeta(context, object, KindOf<T>());
  ReadStruct(context, object, out);
  if (!context.errors.empty()) return InvalidArgumentError(JoinErrors(context.errors.Take()));
  return out;
}

template <typename T>
Json ToJson(const T& object) {
  Json out = WriteStruct(object);
  // Every kind requires its spec, if only as "nothing is wanted".
  if (!out.contains("spec")) out["spec"] = Json::object();
  // A status that nobody has written yet stays away, so that creating an object does not claim zeros.
  if (out.value("status", Json()) == WriteStruct(T{}).value("status", Json())) out.erase("status");
  out["apiVersion"] = std::string(kApiVersion);
  out["kind"] = std::string(KindOf<T>().kind);
  return out;
}

template <typename T>
std::vector<FieldError> Validate(const T& object) {
  ErrorList errors;
  CheckStruct(errors, object);
  return errors.Take();
}

}  // namespace paceline::api

#define PACELINE_INSTANTIATE_KIND(Type)                             \
  template <>                                                       \
  const KindInfo& KindOf<Type>() {                                  \
    return k##Type##Kind;                                           \
  }                                                                 \
  template Result<Type> FromJson<Type>(const Json&, UnknownFields); \
  template Json ToJson<Type>(const Type&);                          \
  template std::vector<FieldError> Validate<Type>(const Type&)
