#include "lib/hdfs/open.h"

#include "lib/hdfs/hdfs_file_system.h"
#include "lib/hdfs/local_file_system.h"
#include "lib/hdfs/stripe_manifest.h"
#include "lib/hdfs/striped_file_system.h"

namespace paceline::hdfs {

Result<WriteLayout> ParseWriteLayout(std::string_view name) {
  if (name == "plain") return WriteLayout::kPlain;
  if (name == "single") return WriteLayout::kSingle;
  if (name == "striped") return WriteLayout::kStriped;
  return InvalidArgumentError("layout \"" + std::string(name) + "\" is none of plain, single, striped");
}

Result<std::unique_ptr<FileSystem>> OpenFileSystem(const Location& location, const FileSystemOptions& options,
                                                   const Clock& clock) {
  const bool is_striped = options.layout == WriteLayout::kStriped;
  if (is_striped && (options.stripe_files < 1 || options.stripe_files > kMaxStripeFiles ||
                     options.stripe_unit.bytes < kMinStripeUnit || options.stripe_unit.bytes > kMaxStripeUnit)) {
    return InvalidArgumentError("striped: 1 to 64 files with units of 64 KiB to 64 MiB");
  }
  const auto budget = std::make_shared<ByteBudget>(options.write_budget.bytes, clock);
  std::unique_ptr<FileSystem> plain;
  if (location.scheme == "file") {
    plain = MakeLocalFileSystem(clock);
  } else {
    ASSIGN_OR_RETURN(const NameService service, ResolveNameService(options.config, location.authority));
    FileSystemOptions inner = options;
    // Each stripe is one pipeline.
    if (is_striped) inner.layout = WriteLayout::kSingle;
    ASSIGN_OR_RETURN(plain, MakeHdfsFileSystem(service, inner, budget, clock));
  }
  const StripeRules rules{
      .writes_stripes = is_striped, .files = options.stripe_files, .unit_bytes = options.stripe_unit.bytes};
  return MakeStripedFileSystem(std::move(plain), rules, budget, clock);
}

}  // namespace paceline::hdfs
