#include "lib/kube/watch_frames.h"

#include <algorithm>

#include "lib/kube/wire_json.h"
#include "lib/kube/wire_proto.h"

namespace paceline::kube {
namespace {

constexpr size_t kMaxObjectBytes = 64 * 1024 * 1024;

Status TooLarge() { return ResourceExhaustedError("an object of more than 64 MiB in a list or watch"); }
Status Malformed(std::string_view what) { return DataLossError("malformed " + std::string(what)); }

// Tag and length of a length-delimited field at the front of `bytes`. False when they are not all there.
struct FieldHead {
  uint64_t number = 0;
  uint64_t wire_type = 0;
  uint64_t length = 0;  // of the content; for a varint, none
  size_t head_bytes = 0;
};
enum class HeadResult { kRead, kIncomplete, kMalformed };

HeadResult ReadHead(std::string_view bytes, FieldHead* head) {
  std::string_view rest = bytes;
  uint64_t tag = 0, value = 0;
  // A varint has at most ten bytes: two of them incomplete in twenty bytes are no varints.
  if (!TakeVarint(&rest, &tag) || !TakeVarint(&rest, &value)) {
    return bytes.size() >= 20 ? HeadResult::kMalformed : HeadResult::kIncomplete;
  }
  head->number = tag >> 3;
  head->wire_type = tag & 7;
  head->length = head->wire_type == 2 ? value : 0;
  head->head_bytes = bytes.size() - rest.size();
  return head->wire_type == 2 || head->wire_type == 0 ? HeadResult::kRead : HeadResult::kMalformed;
}

}  // namespace

Status PendingBytes::Feed(std::string_view piece, const Take& take) {
  while (!piece.empty()) {
    size_t consumed = 0;
    if (bytes_.empty()) {
      RETURN_IF_ERROR(take(piece, &consumed, &need_));
      piece.remove_prefix(consumed);
      if (need_ > kMaxObjectBytes) return TooLarge();
      bytes_ = piece;
      return {};
    }
    // Only what completes the unit is copied; the rest of the piece is read where it is.
    const size_t more = std::min(piece.size(), need_ > bytes_.size() ? need_ - bytes_.size() : 1);
    bytes_.append(piece.substr(0, more));
    piece.remove_prefix(more);
    if (bytes_.size() < need_) return {};
    RETURN_IF_ERROR(take(bytes_, &consumed, &need_));
    if (need_ > kMaxObjectBytes) return TooLarge();
    bytes_.erase(0, consumed);
  }
  return {};
}

ListSplitter::ListSplitter(Consumer consumer) : consumer_(std::move(consumer)) {}

Status ListSplitter::Feed(std::string_view piece) {
  if (piece.empty()) return {};
  if (!has_started_) {
    has_started_ = true;
    is_protobuf_ = piece[0] == kProtoMagic[0];
    if (!is_protobuf_ && piece[0] != '{') return Malformed("list: neither protobuf nor JSON");
  }
  if (!is_protobuf_) return FeedJson(piece);
  return pending_.Feed(piece, [this](std::string_view bytes, size_t* consumed, size_t* need) {
    return TakeProtobuf(bytes, consumed, need);
  });
}

Status ListSplitter::TakeProtobuf(std::string_view bytes, size_t* consumed, size_t* need) {
  *consumed = 0;
  if (part_ == Part::kMagic) {
    *need = kProtoMagic.size();
    if (bytes.size() < *need) return {};
    if (!bytes.starts_with(kProtoMagic)) return Malformed("list: no protobuf magic");
    part_ = Part::kEnvelope;
    *consumed = kProtoMagic.size();
  }
  while (*consumed < bytes.size()) {
    size_t taken = 0;
    RETURN_IF_ERROR(TakeField(bytes.substr(*consumed), &taken, need));
    if (taken == 0) return {};
    *consumed += taken;
  }
  *need = 1;
  return {};
}

// One field of the envelope or of the list; the field that is the list is only entered.
Status ListSplitter::TakeField(std::string_view bytes, size_t* consumed, size_t* need) {
  FieldHead head;
  switch (ReadHead(bytes, &head)) {
    case HeadResult::kMalformed: return Malformed("list");
    case HeadResult::kIncomplete: *need = bytes.size() + 1; return {};
    case HeadResult::kRead: break;
  }
  if (part_ == Part::kEnvelope && head.number == 2 && head.wire_type == 2) {
    has_seen_list_ = true;
    list_bytes_left_ = head.length;
    if (head.length > 0) part_ = Part::kList;
    *consumed = head.head_bytes;
    return {};
  }
  if (head.length > kMaxObjectBytes) return TooLarge();
  const size_t size = head.head_bytes + head.length;
  if (bytes.size() < size) {
    *need = size;
    return {};
  }
  const std::string_view content = bytes.substr(head.head_bytes, head.length);
  *consumed = size;
  if (part_ == Part::kEnvelope) {
    if (head.number == 3 && !content.empty()) return Malformed("list: encoded content");
    return {};
  }
  if (size > list_bytes_left_) return Malformed("list");
  list_bytes_left_ -= size;
  if (list_bytes_left_ == 0) part_ = Part::kEnvelope;
  if (head.number == 1) return ReadListMeta(content);
  return head.number == 2 ? consumer_(content, Encoding::kProtobuf) : Status();
}

Status ListSplitter::ReadListMeta(std::string_view message) {
  ProtoReader reader(message);
  for (ProtoField field; reader.Next(&field);) {
    if (field.number == 2) resource_version_ = field.bytes;
    if (field.number == 3) continue_token_ = field.bytes;
  }
  return reader.ok() ? Status() : Malformed("list metadata");
}

// Past the string that begins before `at`; the end of the piece when it goes on in the next one.
size_t ListSplitter::SkipJsonString(std::string_view piece, size_t at) {
  const size_t begin = at;
  if (is_after_backslash_) ++at;
  is_after_backslash_ = false;
  while (is_in_string_ && at < piece.size()) {
    const size_t quote = std::min(piece.find('"', at), piece.size());
    const size_t backslash = piece.substr(at, quote - at).find('\\');
    if (backslash == std::string_view::npos) {
      is_in_string_ = quote == piece.size();
      at = quote;
    } else {
      at += backslash + 2;
      is_after_backslash_ = at > piece.size();  // what it escapes is in the next piece
    }
  }
  at = std::min(at, piece.size());
  if (depth_ == 1) last_string_.append(piece.substr(begin, std::min<size_t>(at - begin, 256)));
  return is_in_string_ ? at : at + 1;
}

Status ListSplitter::CloseJsonObject(std::string_view piece, size_t end) {
  std::string_view object = piece.substr(kept_from_, end - kept_from_);
  if (!kept_.empty()) object = kept_.append(object);
  is_keeping_ = false;
  Status result;
  if (depth_ == 2) {
    result = consumer_(object, Encoding::kJson);
  } else {
    JsonReader reader(object);
    std::string_view key, text;
    for (reader.EnterObject(); reader.NextKey(&key);) {
      std::string* target = key == "resourceVersion" ? &resource_version_
                            : key == "continue"      ? &continue_token_
                                                     : nullptr;
      if (target != nullptr && reader.ReadString(&text)) *target = text;
      if (target == nullptr) reader.Skip();
    }
    if (!reader.ok()) result = Malformed("list metadata");
  }
  kept_.clear();
  return result;
}

Status ListSplitter::FeedJson(std::string_view piece) {
  kept_from_ = 0;
  for (size_t at = 0; at < piece.size();) {
    if (is_in_string_) {
      at = SkipJsonString(piece, at);
      continue;
    }
    switch (piece[at]) {
      case '"':
        is_in_string_ = true;
        if (depth_ == 1) last_string_.clear();
        break;
      case '{':
        if (!is_keeping_ && ((depth_ == 2 && array_key_ == "items") || (depth_ == 1 && last_string_ == "metadata"))) {
          is_keeping_ = true;
          kept_from_ = at;
        }
        ++depth_;
        break;
      case '[':
        if (depth_ == 1) array_key_ = last_string_;
        ++depth_;
        break;
      case '}':
      case ']':
        if (--depth_ < 0) return Malformed("list: unbalanced JSON");
        if (depth_ == 1 && piece[at] == ']') array_key_.clear();
        if (is_keeping_ && depth_ == (array_key_.empty() ? 1 : 2)) RETURN_IF_ERROR(CloseJsonObject(piece, at + 1));
        break;
      default: break;
    }
    ++at;
  }
  if (is_keeping_) kept_.append(piece.substr(kept_from_));
  return kept_.size() > kMaxObjectBytes ? TooLarge() : Status();
}

Status ListSplitter::Finish() const {
  const bool is_whole = is_protobuf_ ? part_ == Part::kEnvelope && pending_.empty() && has_seen_list_
                                     : has_started_ && depth_ == 0 && !is_in_string_;
  return is_whole ? Status() : DataLossError("the list was cut short");
}

WatchSplitter::WatchSplitter(Consumer consumer) : consumer_(std::move(consumer)) {}

Status WatchSplitter::Feed(std::string_view piece) {
  if (piece.empty()) return {};
  if (!has_started_) {
    has_started_ = true;
    is_protobuf_ = piece[0] != '{';
  }
  if (!is_protobuf_) return FeedJson(piece);
  return pending_.Feed(piece, [this](std::string_view bytes, size_t* consumed, size_t* need) {
    return TakeProtobuf(bytes, consumed, need);
  });
}

Status WatchSplitter::TakeProtobuf(std::string_view bytes, size_t* consumed, size_t* need) {
  constexpr size_t kLengthBytes = 4;
  *consumed = 0;
  *need = kLengthBytes;
  while (bytes.size() >= kLengthBytes) {
    uint32_t length = 0;
    for (size_t i = 0; i < kLengthBytes; ++i) length = length << 8 | static_cast<uint8_t>(bytes[i]);
    if (length > kMaxObjectBytes) return TooLarge();
    *need = kLengthBytes + length;
    if (bytes.size() < *need) return {};
    RETURN_IF_ERROR(ReadProtobufEvent(bytes.substr(kLengthBytes, length)));
    bytes.remove_prefix(*need);
    *consumed += *need;
    *need = kLengthBytes;
  }
  return {};
}

Status WatchSplitter::ReadProtobufEvent(std::string_view message) {
  WatchFrame frame;
  ProtoReader event(message);
  for (ProtoField field; event.Next(&field);) {
    if (field.number == 1) frame.type = field.bytes;
    if (field.number != 2) continue;
    ProtoReader extension(field.bytes);
    ProtoEnvelope envelope;
    for (ProtoField part; extension.Next(&part);) {
      if (part.number != 1) continue;
      if (!OpenEnvelope(part.bytes, &envelope)) return Malformed("watch event: no protobuf envelope");
      frame.object = envelope.raw;
    }
    if (!extension.ok()) return Malformed("watch event");
  }
  if (!event.ok() || frame.type.empty()) return Malformed("watch event");
  return consumer_(frame);
}

// One line is one event: JSON as the server writes it has no line breaks inside.
Status WatchSplitter::FeedJson(std::string_view piece) {
  for (size_t end; (end = piece.find('\n')) != std::string_view::npos; piece.remove_prefix(end + 1)) {
    std::string_view line = piece.substr(0, end);
    if (!line_.empty()) line = line_.append(line);
    const Status status = line.find_first_not_of(" \r\t") == std::string_view::npos ? Status() : ReadJsonEvent(line);
    line_.clear();
    RETURN_IF_ERROR(status);
  }
  line_.append(piece);
  return line_.size() > kMaxObjectBytes ? TooLarge() : Status();
}

Status WatchSplitter::ReadJsonEvent(std::string_view line) {
  WatchFrame frame{.encoding = Encoding::kJson};
  JsonReader reader(line);
  std::string_view key, raw;
  for (reader.EnterObject(); reader.NextKey(&key);) {
    const bool is_type = key == "type", is_object = key == "object";
    if (!reader.Skip(&raw)) break;
    if (is_type && raw.size() >= 2) frame.type = raw.substr(1, raw.size() - 2);
    if (is_object) frame.object = raw;
  }
  if (!reader.ok() || frame.type.empty()) return Malformed("watch event");
  return consumer_(frame);
}

}  // namespace paceline::kube
