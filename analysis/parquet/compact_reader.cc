#include "analysis/parquet/compact_reader.h"

namespace paceline::analysis {
namespace {

constexpr int kMaxDepth = 16;  // Parquet's own metadata nests five deep

int64_t FromZigzag(uint64_t value) { return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1); }

}  // namespace

uint8_t CompactReader::ReadByte() {
  if (has_failed_ || at_ >= bytes_.size()) {
    has_failed_ = true;
    return 0;
  }
  return static_cast<uint8_t>(bytes_[at_++]);
}

uint64_t CompactReader::ReadVarint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const uint8_t byte = ReadByte();
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  has_failed_ = true;
  return 0;
}

void CompactReader::Take(uint64_t count) {
  if (has_failed_ || count > bytes_.size() - at_) {
    has_failed_ = true;
  } else {
    at_ += count;
  }
}

bool CompactReader::Next(Field& field) {
  const uint8_t header = ReadByte();
  if (has_failed_ || header == 0) return false;
  field.type = header & 0x0f;
  const int delta = header >> 4;
  field.id = static_cast<int16_t>(delta == 0 ? FromZigzag(ReadVarint()) : field.id + delta);
  return !has_failed_;
}

bool CompactReader::ReadBool(const Field& field) const { return field.type == kTrue; }

int64_t CompactReader::ReadInt() { return FromZigzag(ReadVarint()); }

std::string_view CompactReader::ReadBinary() {
  const uint64_t size = ReadVarint();
  const size_t start = at_;
  Take(size);
  return has_failed_ ? std::string_view() : bytes_.substr(start, size);
}

size_t CompactReader::ReadListHeader(uint8_t& type) {
  const uint8_t header = ReadByte();
  type = header & 0x0f;
  const uint64_t size = (header >> 4) == 15 ? ReadVarint() : header >> 4;
  // Each element takes a byte at least, so a larger count is a lie.
  if (size > bytes_.size() - at_) has_failed_ = true;
  return has_failed_ ? 0 : size;
}

// In a list or map a truth value has a byte of its own.
void CompactReader::SkipElement(uint8_t type, int depth) {
  if (type == kTrue || type == kFalse) return Take(1);
  Skip(type, depth + 1);
}

void CompactReader::Skip(uint8_t type, int depth) {
  if (depth > kMaxDepth) has_failed_ = true;
  if (has_failed_) return;
  switch (type) {
    case kTrue:
    case kFalse: return;  // the value is in the field header
    case kByte: return Take(1);
    case kI16:
    case kI32:
    case kI64: ReadVarint(); return;
    case kDouble: return Take(8);
    case kBinary: ReadBinary(); return;
    case kList:
    case kSet: {
      uint8_t element = 0;
      const size_t size = ReadListHeader(element);
      for (size_t i = 0; i < size && !has_failed_; i++) SkipElement(element, depth);
      return;
    }
    case kMap: {
      const uint64_t size = ReadVarint();
      const uint8_t types = size == 0 ? 0 : ReadByte();
      // A key takes a byte at least.
      if (size > bytes_.size() - at_) has_failed_ = true;
      for (uint64_t i = 0; i < size && !has_failed_; i++) {
        SkipElement(types >> 4, depth);
        SkipElement(types & 0x0f, depth);
      }
      return;
    }
    case kStruct: {
      Field field;
      while (Next(field)) Skip(field.type, depth + 1);
      return;
    }
    default: has_failed_ = true;
  }
}

}  // namespace paceline::analysis
