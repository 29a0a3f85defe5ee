#include "tests/hdfs/scripted_name_node.h"

#include "lib/hdfs/rpc_frame.h"
#include "lib/hdfs/wire_bytes.h"

namespace paceline::hdfs {
namespace {

constexpr size_t kPreambleBytes = 7;

std::optional<std::string> ReadFrame(fakes::ScriptedPeer::Link& link) {
  const std::optional<std::string> size = link.Read(4);
  return size.has_value() ? link.Read(LoadBigEndian32(size->data())) : std::nullopt;
}

}  // namespace

void ScriptedNameNode::Serve(fakes::ScriptedPeer::Link& link) {
  if (!link.Read(kPreambleBytes).has_value() || !ReadFrame(link).has_value()) return;
  while (const std::optional<std::string> frame = ReadFrame(link)) {
    SeenCall call;
    wire::RequestHeader request;
    DelimitedReader reader(*frame);
    if (!reader.Next("header", &call.header).ok() || call.header.call_id() == kPingCallId) continue;
    if (!reader.Next("request", &request).ok()) return;
    call.method = request.method();
    call.body = DelimitedBody(reader.rest()).value_or("");
    std::optional<std::string> answer;
    {
      MutexLock lock(mutex_);
      answer = handle_(call);
    }
    if (!answer.has_value() || !link.Write(*answer)) return;
  }
}

std::string Frame(const std::string& inner) {
  std::string frame;
  AppendBigEndian(inner.size(), 4, &frame);
  return frame + inner;
}

std::string Success(const SeenCall& call, const std::string& body) {
  wire::RpcResponseHeader header;
  header.set_call_id(static_cast<uint32_t>(call.header.call_id()));
  header.set_status(0);
  std::string inner;
  AppendDelimited(header, &inner);
  size_t size = body.size();
  for (; size >= 0x80; size >>= 7) inner.push_back(static_cast<char>(size | 0x80));
  inner.push_back(static_cast<char>(size));
  return Frame(inner + body);
}

std::string Failure(const SeenCall& call, const std::string& exception, uint32_t status) {
  wire::RpcResponseHeader header;
  header.set_call_id(static_cast<uint32_t>(call.header.call_id()));
  header.set_status(status);
  header.set_exception_class(exception);
  header.set_error_message("because\n\tat somewhere");
  std::string inner;
  AppendDelimited(header, &inner);
  return Frame(inner);
}

}  // namespace paceline::hdfs
