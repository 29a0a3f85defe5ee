// The way out for ParallelWriter where the cluster does not join files.
#include "lib/hdfs/file_writer.h"
#include "lib/hdfs/parallel_writer.h"

namespace paceline::hdfs {
namespace {

constexpr size_t kCopyBytes = 4 << 20;

}  // namespace

Status ParallelWriter::JoinByCopy(Deadline deadline) {
  // The next files are written so from the start.
  *context_->is_concat_refused = true;
  ASSIGN_OR_RETURN(auto opened, context_->namenode.Append(file_.path, NameNode::AppendStart::kNewBlock, deadline));
  ASSIGN_OR_RETURN(std::unique_ptr<FileWriter> writer, FileWriter::Make(context_, std::move(opened), {}, deadline));
  std::string buffer(kCopyBytes, '\0');
  for (const std::string& part : parts_) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Reader> reader, context_->open(part, deadline));
    for (uint64_t at = 0; at < reader->length_bytes();) {
      const auto bytes = std::as_writable_bytes(std::span(buffer));
      ASSIGN_OR_RETURN(const size_t got, reader->Read(at, bytes, deadline));
      RETURN_IF_ERROR(writer->Write(bytes.first(got), deadline));
      at += got;
    }
  }
  RETURN_IF_ERROR(writer->Close(deadline));
  for (const std::string& part : parts_) {
    // The file is whole; a part that stays is found by the janitor.
    context_->namenode.Delete(part, RemoveMode::kFileOrEmptyDirectory, deadline).status().IgnoreError();
  }
  parts_.clear();
  return Status();
}

}  // namespace paceline::hdfs
