#include "lib/kube/views.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/kube/views_fields.h"

namespace paceline::kube {
namespace {

auto LowerBound(const std::vector<StringMap::Entry>& entries, std::string_view key) {
  return std::lower_bound(entries.begin(), entries.end(), key,
                          [](const StringMap::Entry& entry, std::string_view k) { return entry.first.view() < k; });
}

}  // namespace

StringMap::StringMap(std::initializer_list<Entry> entries) {
  for (const Entry& entry : entries) Set(entry.first, entry.second);
}

const SharedString* StringMap::Find(std::string_view key) const {
  auto found = LowerBound(entries_, key);
  return found != entries_.end() && found->first == key ? &found->second : nullptr;
}

std::string_view StringMap::Get(std::string_view key) const {
  const SharedString* found = Find(key);
  return found == nullptr ? std::string_view() : found->view();
}

void StringMap::Set(SharedString key, SharedString value) {
  // The server sends keys in order, so this is the usual way.
  if (entries_.empty() || entries_.back().first.view() < key.view()) {
    entries_.emplace_back(std::move(key), std::move(value));
    return;
  }
  auto found = LowerBound(entries_, key);
  if (found != entries_.end() && found->first == key) {
    entries_[found - entries_.begin()].second = std::move(value);
  } else {
    entries_.emplace(found, std::move(key), std::move(value));
  }
}

const OwnerReference* ObjectMeta::Controller() const {
  for (const OwnerReference& owner : owners) {
    if (owner.is_controller) return &owner;
  }
  return nullptr;
}

const Condition* FindCondition(const std::vector<Condition>& conditions, std::string_view type) {
  for (const Condition& condition : conditions) {
    if (condition.type == type) return &condition;
  }
  return nullptr;
}

bool IsConditionTrue(const std::vector<Condition>& conditions, std::string_view type) {
  const Condition* found = FindCondition(conditions, type);
  return found != nullptr && found->status == "True";
}

WallTime EventView::When() const { return std::max({first_time, last_time, event_time}); }

Result<nlohmann::json> ObjectView::Body() const {
  nlohmann::json parsed = nlohmann::json::parse(json.view(), nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return DataLossError(kind.str() + " " + meta.Key().ToString() + " is not valid JSON");
  return parsed;
}

template <typename View>
Result<std::shared_ptr<const View>> DecodeProtobuf(std::string_view message, StringPool* pool) {
  auto view = std::make_shared<View>();
  if (!MessageFromProto<Fields<View>>(message, view.get(), pool)) {
    return DataLossError("malformed protobuf of " + View::DefaultResource().kind + " " + view->meta.Key().ToString());
  }
  return std::shared_ptr<const View>(std::move(view));
}

template <typename View>
Result<std::shared_ptr<const View>> DecodeJson(std::string_view text, StringPool* pool) {
  auto view = std::make_shared<View>();
  JsonReader reader(text);
  if (!MessageFromJson<Fields<View>>(reader, view.get(), pool) || !reader.AtEnd()) {
    return DataLossError("malformed JSON of " + View::DefaultResource().kind + " " + view->meta.Key().ToString());
  }
  return std::shared_ptr<const View>(std::move(view));
}

template Result<std::shared_ptr<const PodView>> DecodeProtobuf(std::string_view, StringPool*);
template Result<std::shared_ptr<const PodView>> DecodeJson(std::string_view, StringPool*);
template Result<std::shared_ptr<const NodeView>> DecodeProtobuf(std::string_view, StringPool*);
template Result<std::shared_ptr<const NodeView>> DecodeJson(std::string_view, StringPool*);
template Result<std::shared_ptr<const EventView>> DecodeProtobuf(std::string_view, StringPool*);
template Result<std::shared_ptr<const EventView>> DecodeJson(std::string_view, StringPool*);
template Result<std::shared_ptr<const JobView>> DecodeProtobuf(std::string_view, StringPool*);
template Result<std::shared_ptr<const JobView>> DecodeJson(std::string_view, StringPool*);

template <>
Result<std::shared_ptr<const ObjectView>> DecodeProtobuf(std::string_view, StringPool*) {
  return UnimplementedError("objects of any kind are read as JSON only");
}

template <>
Result<std::shared_ptr<const ObjectView>> DecodeJson(std::string_view text, StringPool* pool) {
  auto view = std::make_shared<ObjectView>();
  JsonReader reader(text);
  std::string_view key, managed;  // `managed`: metadata's managedFields, a part of `text`
  bool is_read = true;
  for (reader.EnterObject(); is_read && reader.NextKey(&key);) {
    std::string_view raw;
    if (key == "apiVersion") {
      is_read = FromJson(reader, &view->api_version, pool);
    } else if (key == "kind") {
      is_read = FromJson(reader, &view->kind, pool);
    } else if (key == "metadata") {
      is_read = reader.Skip(&raw) && MetaFromJson(raw, &view->meta, &managed, pool);
    } else {
      is_read = reader.Skip();
    }
  }
  if (!is_read || !reader.AtEnd()) return DataLossError("malformed JSON of an object " + view->meta.Key().ToString());
  view->json = WithoutMember(text, managed);
  return std::shared_ptr<const ObjectView>(std::move(view));
}

template <typename View>
Result<View> ViewFromJson(const nlohmann::json& object) {
  // Bytes that are not UTF-8 cannot come from a parsed object; replacing them is what keeps dump from throwing.
  const std::string text = object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  ASSIGN_OR_RETURN(const std::shared_ptr<const View> view, DecodeJson<View>(text, nullptr));
  return *view;
}

template Result<PodView> ViewFromJson(const nlohmann::json&);
template Result<NodeView> ViewFromJson(const nlohmann::json&);
template Result<EventView> ViewFromJson(const nlohmann::json&);
template Result<JobView> ViewFromJson(const nlohmann::json&);
template Result<ObjectView> ViewFromJson(const nlohmann::json&);

}  // namespace paceline::kube
