#include "lib/deps/bytecode.h"

namespace paceline::deps {
namespace {

constexpr std::string_view kFolder = "/__pycache__/";
constexpr size_t kFlagsAt = 4, kTimeAt = 8, kSizeAt = 12;

uint32_t Load(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[at + i])) << (8 * i);
  return value;
}

}  // namespace

Bytecode CheckBytecode(std::string_view header, int64_t source_time_s, uint64_t source_bytes) {
  // Every magic number ends in CR LF.
  if (header.size() < kBytecodeHeader || header[2] != '\r' || header[3] != '\n') return Bytecode::kUnknown;
  const uint32_t flags = Load(header, kFlagsAt);
  if (flags > 3) return Bytecode::kUnknown;
  if (flags != 0) return Bytecode::kByHash;
  const bool fits = Load(header, kTimeAt) == static_cast<uint32_t>(source_time_s) &&
                    Load(header, kSizeAt) == static_cast<uint32_t>(source_bytes);
  return fits ? Bytecode::kByTime : Bytecode::kStale;
}

void SetBytecodeTime(int64_t source_time_s, char* header) {
  const auto time = static_cast<uint32_t>(source_time_s);
  for (size_t i = 0; i < 4; ++i) header[kTimeAt + i] = static_cast<char>(time >> (8 * i));
}

std::string BytecodeSource(std::string_view path) {
  const size_t folder = path.rfind(kFolder);
  if (folder == std::string_view::npos || !path.ends_with(".pyc")) return "";
  const std::string_view name = path.substr(folder + kFolder.size());
  if (name.find('/') != std::string_view::npos) return "";
  // The module's name ends at the first dot: what follows is the interpreter and the optimisation.
  const size_t dot = name.find('.');
  if (dot == 0 || dot + 4 == name.size()) return "";
  return std::string(path.substr(0, folder + 1)) + std::string(name.substr(0, dot)) + ".py";
}

}  // namespace paceline::deps
