// Reads Apache Thrift's compact protocol, which Parquet's footer and page headers are written in: field headers with
// deltas, zigzag varints, lists and nested structs (thrift-compact-protocol.md of Apache Thrift). Foreign bytes: every
// length is held against what is left, a fault makes all later reads fail, nothing is thrown.
//
// Called by metadata.cc. One thread per reader; the bytes must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace paceline::analysis {

class CompactReader {
 public:
  explicit CompactReader(std::string_view bytes) : bytes_(bytes) {}

  // One struct: call Next until it says false, and for each field one of the reads below, or Skip.
  struct Field {
    int16_t id = 0;
    uint8_t type = 0;
  };
  // False at the end of the struct and on a fault. `field` must be a fresh one at the start of each struct.
  bool Next(Field& field);

  bool ReadBool(const Field& field) const;
  int64_t ReadInt();
  std::string_view ReadBinary();
  // The number of elements; their type goes to `type`. Never more than there are bytes left.
  size_t ReadListHeader(uint8_t& type);
  void Skip(uint8_t type, int depth = 0);

  bool has_failed() const { return has_failed_; }
  // How many bytes were read.
  size_t position() const { return at_; }

  static constexpr uint8_t kTrue = 1, kFalse = 2, kByte = 3, kI16 = 4, kI32 = 5, kI64 = 6, kDouble = 7, kBinary = 8,
                           kList = 9, kSet = 10, kMap = 11, kStruct = 12;

 private:
  uint8_t ReadByte();
  uint64_t ReadVarint();
  void Take(uint64_t count);
  void SkipElement(uint8_t type, int depth);

  std::string_view bytes_;
  size_t at_ = 0;
  bool has_failed_ = false;
};

}  // namespace paceline::analysis
