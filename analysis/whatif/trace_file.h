// Reads the what-if study's own trace files: operations as Parquet, the job's shape as YAML. Blocks for the disk.
#pragma once

#include <string>

#include "analysis/whatif/trace.h"
#include "lib/base/result.h"

namespace paceline::analysis {

// The text of a metadata file; unknown keys are ignored. kInvalidArgument names the key.
Result<JobShape> ParseJobShape(const std::string& yaml);

// The same from a file. Errors name it.
Result<JobShape> ReadJobShape(const std::string& path);

// `metadata_path` gives the shape. The trace is checked (CheckTrace). Errors name the file.
Result<StepTrace> ReadStudyTrace(const std::string& parquet_path, const std::string& metadata_path);

}  // namespace paceline::analysis
