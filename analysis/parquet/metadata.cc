#include "analysis/parquet/metadata.h"

#include <fmt/format.h>

#include "analysis/parquet/compact_reader.h"

namespace paceline::analysis {
namespace {

struct SchemaElement {
  ParquetColumn column;
  int64_t type = -1;
  int64_t repetition = 0;
  int64_t children = 0;
};

SchemaElement ReadSchemaElement(CompactReader& reader) {
  SchemaElement element;
  CompactReader::Field field;
  while (reader.Next(field)) {
    switch (field.id) {
      case 1: element.type = reader.ReadInt(); break;
      case 3: element.repetition = reader.ReadInt(); break;
      case 4: element.column.name = std::string(reader.ReadBinary()); break;
      case 5: element.children = reader.ReadInt(); break;
      default: reader.Skip(field.type);
    }
  }
  return element;
}

// The root and, for a flat table, one element per column.
Status ReadSchema(CompactReader& reader, ParquetMetadata& metadata) {
  uint8_t type = 0;
  const size_t count = reader.ReadListHeader(type);
  for (size_t i = 0; i < count && !reader.has_failed(); i++) {
    SchemaElement element = ReadSchemaElement(reader);
    if (i == 0) continue;
    const std::string& name = element.column.name;
    if (element.children > 0) return UnimplementedError(fmt::format("column \"{}\" is nested", name));
    if (element.repetition > 1) return UnimplementedError(fmt::format("column \"{}\" is repeated", name));
    if (element.type < 0 || element.type > static_cast<int64_t>(ParquetType::kFixedBytes)) {
      return DataLossError(fmt::format("column \"{}\" has the unknown type {}", name, element.type));
    }
    element.column.type = static_cast<ParquetType>(element.type);
    element.column.is_optional = element.repetition == 1;
    metadata.columns.push_back(std::move(element.column));
  }
  return Status();
}

struct ChunkFields {
  ParquetChunk chunk;
  int64_t codec = 0;
  int64_t data_offset = 0;
  int64_t dictionary_offset = 0;
  bool is_elsewhere = false;
};

void ReadColumnMetadata(CompactReader& reader, ChunkFields& fields) {
  CompactReader::Field field;
  while (reader.Next(field)) {
    switch (field.id) {
      case 4: fields.codec = reader.ReadInt(); break;
      case 5: fields.chunk.value_count = reader.ReadInt(); break;
      case 7: fields.chunk.bytes = reader.ReadInt(); break;
      case 9: fields.data_offset = reader.ReadInt(); break;
      case 11: fields.dictionary_offset = reader.ReadInt(); break;
      default: reader.Skip(field.type);
    }
  }
}

Result<ParquetChunk> ReadChunk(CompactReader& reader) {
  ChunkFields fields;
  CompactReader::Field field;
  while (reader.Next(field)) {
    if (field.id == 1) fields.is_elsewhere = true;
    if (field.id == 3 && field.type == CompactReader::kStruct) {
      ReadColumnMetadata(reader, fields);
    } else {
      reader.Skip(field.type);
    }
  }
  if (fields.is_elsewhere) return UnimplementedError("a column lies in another file");
  if (fields.codec < 0 || fields.codec > static_cast<int64_t>(ParquetCodec::kLz4Raw)) {
    return DataLossError(fmt::format("unknown compression {}", fields.codec));
  }
  fields.chunk.codec = static_cast<ParquetCodec>(fields.codec);
  // Some writers leave a dictionary offset of 0 where there is none.
  const bool has_dictionary = fields.dictionary_offset > 0 && fields.dictionary_offset < fields.data_offset;
  fields.chunk.offset = has_dictionary ? fields.dictionary_offset : fields.data_offset;
  return fields.chunk;
}

Result<ParquetRowGroup> ReadRowGroup(CompactReader& reader) {
  ParquetRowGroup group;
  CompactReader::Field field;
  while (reader.Next(field)) {
    if (field.id == 1 && field.type == CompactReader::kList) {
      uint8_t type = 0;
      const size_t count = reader.ReadListHeader(type);
      for (size_t i = 0; i < count && !reader.has_failed(); i++) {
        ASSIGN_OR_RETURN(const ParquetChunk chunk, ReadChunk(reader));
        group.chunks.push_back(chunk);
      }
    } else if (field.id == 3) {
      group.row_count = reader.ReadInt();
    } else {
      reader.Skip(field.type);
    }
  }
  return group;
}

void ReadDataPage(CompactReader& reader, ParquetPageHeader& header, int64_t& encoding) {
  CompactReader::Field field;
  while (reader.Next(field)) {
    if (field.id == 1) {
      header.value_count = reader.ReadInt();
    } else if (field.id == 2) {
      encoding = reader.ReadInt();
    } else {
      reader.Skip(field.type);
    }
  }
}

void ReadDataPageV2(CompactReader& reader, ParquetPageHeader& header, int64_t& encoding) {
  CompactReader::Field field;
  while (reader.Next(field)) {
    switch (field.id) {
      case 1: header.value_count = reader.ReadInt(); break;
      case 2: header.null_count = reader.ReadInt(); break;
      case 4: encoding = reader.ReadInt(); break;
      case 5: header.definition_bytes = reader.ReadInt(); break;
      case 6: header.repetition_bytes = reader.ReadInt(); break;
      case 7: header.is_compressed = reader.ReadBool(field); break;
      default: reader.Skip(field.type);
    }
  }
}

}  // namespace

Result<ParquetMetadata> ParseParquetMetadata(std::string_view footer) {
  ParquetMetadata metadata;
  CompactReader reader(footer);
  CompactReader::Field field;
  while (reader.Next(field)) {
    if (field.id == 2 && field.type == CompactReader::kList) {
      RETURN_IF_ERROR(ReadSchema(reader, metadata));
    } else if (field.id == 3) {
      metadata.row_count = reader.ReadInt();
    } else if (field.id == 4 && field.type == CompactReader::kList) {
      uint8_t type = 0;
      const size_t count = reader.ReadListHeader(type);
      for (size_t i = 0; i < count && !reader.has_failed(); i++) {
        ASSIGN_OR_RETURN(ParquetRowGroup group, ReadRowGroup(reader));
        metadata.row_groups.push_back(std::move(group));
      }
    } else {
      reader.Skip(field.type);
    }
  }
  if (reader.has_failed()) return DataLossError("the footer is damaged");
  int64_t rows = 0;
  for (const ParquetRowGroup& group : metadata.row_groups) {
    if (group.chunks.size() != metadata.columns.size()) return DataLossError("a row group lacks columns");
    if (group.row_count < 0 || group.row_count > metadata.row_count - rows) return DataLossError("row counts differ");
    rows += group.row_count;
  }
  if (rows != metadata.row_count) return DataLossError("row counts differ");
  return metadata;
}

Result<ParquetPageHeader> ParseParquetPageHeader(std::string_view bytes) {
  ParquetPageHeader header;
  int64_t type = -1, encoding = 0;
  CompactReader reader(bytes);
  CompactReader::Field field;
  while (reader.Next(field)) {
    switch (field.id) {
      case 1: type = reader.ReadInt(); break;
      case 2: header.raw_bytes = reader.ReadInt(); break;
      case 3: header.stored_bytes = reader.ReadInt(); break;
      case 5:
      case 7: ReadDataPage(reader, header, encoding); break;  // the fields that we use are the same
      case 8: ReadDataPageV2(reader, header, encoding); break;
      default: reader.Skip(field.type);
    }
  }
  constexpr int64_t kMaxPage = 1LL << 30;
  const bool is_sane = type >= 0 && type <= 3 && header.raw_bytes >= 0 && header.raw_bytes <= kMaxPage &&
                       header.stored_bytes >= 0 && header.stored_bytes <= kMaxPage && header.value_count >= 0 &&
                       header.value_count <= kMaxPage && header.definition_bytes >= 0 && header.repetition_bytes >= 0 &&
                       header.definition_bytes <= kMaxPage && header.repetition_bytes <= kMaxPage;
  if (reader.has_failed() || !is_sane) return DataLossError("a page header is damaged");
  header.type = static_cast<ParquetPageType>(type);
  header.encoding = static_cast<ParquetEncoding>(encoding);
  header.header_bytes = reader.position();
  return header;
}

}  // namespace paceline::analysis
