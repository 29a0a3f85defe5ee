// Between the protocol's messages and our values. Internal to lib/hdfs: brings generated headers. Pure functions.
#pragma once

#include <string>

#include "lib/base/result.h"
#include "lib/hdfs/block.h"
#include "lib/hdfs/file_system.h"
#include "lib/hdfs/proto/namenode.pb.h"

namespace paceline::hdfs {

ExtendedBlock FromWire(const wire::ExtendedBlock& block);
wire::ExtendedBlock ToWire(const ExtendedBlock& block);
SecurityToken FromWire(const wire::Token& token);
wire::Token ToWire(const SecurityToken& token);
DataNode FromWire(const wire::DatanodeInfo& node);
wire::DatanodeInfo ToWire(const DataNode& node);
LocatedBlock FromWire(const wire::LocatedBlock& block);
wire::LocatedBlock ToWire(const LocatedBlock& block);
LocatedBlocks FromWire(const wire::LocatedBlocks& blocks);
FileStatus FromWire(const wire::HdfsFileStatus& status);

// "user.x" to its namespace number and "x", and back. kUnimplemented (EOPNOTSUPP) for a namespace that HDFS has not.
Result<wire::XAttr> XattrToWire(const std::string& name);
std::string XattrName(const wire::XAttr& attribute);

}  // namespace paceline::hdfs
