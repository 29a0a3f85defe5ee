#include "lib/hdfs/rpc_frame.h"

#include "lib/hdfs/wire_bytes.h"

namespace paceline::hdfs {
namespace {

constexpr uint8_t kRpcVersion = 9;
constexpr uint32_t kProtobufKind = 2;
constexpr uint32_t kFinalPacket = 0;

std::string WithLength(std::string_view inner) {
  std::string frame;
  frame.reserve(inner.size() + 4);
  AppendBigEndian(inner.size(), 4, &frame);
  return frame.append(inner);
}

wire::RpcRequestHeader Header(int32_t call_id, int32_t retry_count, std::string_view client_id) {
  wire::RpcRequestHeader header;
  header.set_rpc_kind(kProtobufKind);
  header.set_rpc_op(kFinalPacket);
  header.set_call_id(call_id);
  header.set_client_id(std::string(client_id));
  header.set_retry_count(retry_count);
  return header;
}

}  // namespace

std::string RpcPreamble(RpcAuth auth) {
  std::string bytes = "hrpc";
  bytes.push_back(static_cast<char>(kRpcVersion));
  bytes.push_back(0);  // service class
  bytes.push_back(static_cast<char>(auth));
  return bytes;
}

std::string RpcContextFrame(const RpcIdentity& identity, std::string_view protocol) {
  wire::IpcConnectionContext context;
  if (!identity.effective_user.empty()) context.mutable_user_info()->set_effective_user(identity.effective_user);
  context.set_protocol(std::string(protocol));
  std::string inner;
  AppendDelimited(Header(kContextCallId, -1, identity.client_id), &inner);
  AppendDelimited(context, &inner);
  return WithLength(inner);
}

std::string RpcPingFrame(std::string_view client_id) {
  std::string inner;
  AppendDelimited(Header(kPingCallId, -1, client_id), &inner);
  return WithLength(inner);
}

std::string RpcCallFrame(const RpcIdentity& identity, const RpcCallHead& head, std::string_view body) {
  wire::RequestHeader request;
  request.set_method(std::string(head.method));
  request.set_protocol(std::string(head.protocol));
  request.set_protocol_version(1);
  std::string inner;
  AppendDelimited(Header(head.call_id, head.retry_count, identity.client_id), &inner);
  AppendDelimited(request, &inner);
  uint64_t size = body.size();
  for (; size >= 0x80; size >>= 7) inner.push_back(static_cast<char>(size | 0x80));
  inner.push_back(static_cast<char>(size));
  inner.append(body);
  return WithLength(inner);
}

std::string RpcSaslFrame(const wire::RpcSasl& message) {
  std::string inner;
  // The client id is empty here, as Java sends it: the calls come later.
  AppendDelimited(Header(kSaslCallId, -1, ""), &inner);
  AppendDelimited(message, &inner);
  return WithLength(inner);
}

Result<RpcAnswer> ParseRpcAnswer(std::string_view frame) {
  RpcAnswer answer;
  DelimitedReader reader(frame);
  RETURN_IF_ERROR(reader.Next("header of an answer", &answer.header));
  answer.call_id = static_cast<int32_t>(answer.header.call_id());
  answer.rest = reader.rest();
  return answer;
}

Result<std::string_view> DelimitedBody(std::string_view rest) {
  uint64_t size = 0;
  if (!TakeVarint(&rest, &size) || size > rest.size()) return DataLossError("answer of a call: cut short");
  return rest.substr(0, size);
}

Status CheckFirstBytes(std::string_view four_bytes) {
  if (four_bytes == "HTTP")
    return UnimplementedError("the port speaks HTTP, not Hadoop RPC; the default port of RPC is 8020");
  if (four_bytes == "\xff\xff\xff\xff") return UnimplementedError("the server speaks another version of Hadoop RPC");
  return Status();
}

}  // namespace paceline::hdfs
