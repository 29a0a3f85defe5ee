#include "lib/hdfs/open.h"

#include "lib/hdfs/hdfs_file_system.h"
#include "lib/hdfs/local_file_system.h"

namespace paceline::hdfs {

Result<std::unique_ptr<FileSystem>> OpenFileSystem(const Location& location, const FileSystemOptions& options,
                                                   const Clock& clock) {
  if (location.scheme == "file") return MakeLocalFileSystem(clock);
  ASSIGN_OR_RETURN(const NameService service, ResolveNameService(options.config, location.authority));
  return MakeHdfsFileSystem(service, options, clock);
}

}  // namespace paceline::hdfs
