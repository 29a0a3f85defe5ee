#include "analysis/whatif/trace_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <fstream>
#include <sstream>

#include "analysis/parquet/file.h"

namespace paceline::analysis {
namespace {

constexpr size_t kMaxMetadataBytes = 1 << 20;

Result<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFoundError("cannot read " + path);
  std::string text(kMaxMetadataBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

template <typename T>
Status ReadKey(const YAML::Node& node, const char* key, T& value) {
  const YAML::Node child = node[key];
  if (!child) return Status();
  try {
    value = child.as<T>();
  } catch (const YAML::Exception&) {
    return InvalidArgumentError(fmt::format("{} has the wrong type", key));
  }
  return Status();
}

// A file may name types that no row has (categories of the program that wrote it).
Result<std::vector<OpType>> TypesOf(const ParquetTexts& texts) {
  std::vector<std::optional<OpType>> types;
  for (const std::string& name : texts.distinct) types.push_back(ParseOpType(name));
  std::vector<OpType> rows;
  rows.reserve(texts.rows.size());
  for (const uint32_t index : texts.rows) {
    if (!types[index]) {
      return InvalidArgumentError(
          fmt::format("row {}: optype \"{}\" is not known", rows.size(), texts.distinct[index].substr(0, 64)));
    }
    rows.push_back(*types[index]);
  }
  return rows;
}

Status ReadColumns(const ParquetFile& file, StepTrace& trace) {
  ASSIGN_OR_RETURN(trace.dp_rank, file.ReadIntegers<int16_t>("dp_rank"));
  ASSIGN_OR_RETURN(trace.stage, file.ReadIntegers<int16_t>("stage"));
  ASSIGN_OR_RETURN(trace.rank, file.ReadIntegers<int32_t>("rank"));
  ASSIGN_OR_RETURN(trace.step, file.ReadIntegers<int64_t>("step"));
  ASSIGN_OR_RETURN(trace.start, file.ReadFloats("start_ts"));
  ASSIGN_OR_RETURN(trace.duration, file.ReadFloats("duration"));
  ASSIGN_OR_RETURN(trace.seq, file.ReadIntegers<int32_t>("seq_id"));
  ASSIGN_OR_RETURN(trace.mc, file.ReadIntegers<int16_t>("mc"));
  ASSIGN_OR_RETURN(trace.gmc, file.ReadIntegers<int16_t>("gmc"));
  ASSIGN_OR_RETURN(const ParquetTexts types, file.ReadTexts("optype"));
  ASSIGN_OR_RETURN(trace.type, TypesOf(types));
  return Status();
}

}  // namespace

Result<JobShape> ParseJobShape(const std::string& yaml) {
  JobShape shape;
  try {
    const YAML::Node node = YAML::Load(yaml);
    if (!node.IsMap()) return InvalidArgumentError("the metadata is not a map");
    RETURN_IF_ERROR(ReadKey(node, "trial_name", shape.trial_name));
    RETURN_IF_ERROR(ReadKey(node, "run_id", shape.run_id));
    RETURN_IF_ERROR(ReadKey(node, "dp_size", shape.dp_size));
    RETURN_IF_ERROR(ReadKey(node, "dsp_size", shape.dsp_size));
    RETURN_IF_ERROR(ReadKey(node, "pp_size", shape.pp_size));
    RETURN_IF_ERROR(ReadKey(node, "tp_size", shape.tp_size));
    RETURN_IF_ERROR(ReadKey(node, "vpp_size", shape.vpp_size));
    RETURN_IF_ERROR(ReadKey(node, "world_size", shape.world_size));
  } catch (const YAML::Exception& error) {
    return InvalidArgumentError(fmt::format("the metadata is no YAML: {}", error.what()));
  }
  RETURN_IF_ERROR(CheckShape(shape));
  return shape;
}

Result<JobShape> ReadJobShape(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string yaml, ReadText(path));
  Result<JobShape> shape = ParseJobShape(yaml);
  if (!shape.ok()) return shape.status().Annotate(path);
  return shape;
}

Result<StepTrace> ReadStudyTrace(const std::string& parquet_path, const std::string& metadata_path) {
  StepTrace trace;
  ASSIGN_OR_RETURN(trace.shape, ReadJobShape(metadata_path));
  ASSIGN_OR_RETURN(const ParquetFile file, ParquetFile::Open(parquet_path));
  const Status read = ReadColumns(file, trace);
  if (!read.ok()) return read.Annotate(parquet_path);
  const Status checked = CheckTrace(trace);
  if (!checked.ok()) return checked.Annotate(parquet_path);
  return trace;
}

}  // namespace paceline::analysis
