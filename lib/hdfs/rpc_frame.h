// The frames of Hadoop RPC version 9 as bytes: what a client sends, and what it reads out of an answer. Internal to
// lib/hdfs. Pure functions; the layout is in docs/formats/hdfs-protocol.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/hdfs/proto/rpc.pb.h"

namespace paceline::hdfs {

inline constexpr int32_t kContextCallId = -3;
inline constexpr int32_t kPingCallId = -4;
inline constexpr int32_t kSaslCallId = -33;
inline constexpr int32_t kAuthorizationFailedCallId = -1;

// States of RpcSasl.
inline constexpr uint32_t kSaslSuccess = 0, kSaslNegotiate = 1, kSaslInitiate = 2, kSaslChallenge = 3,
                          kSaslResponse = 4, kSaslWrap = 5;

inline constexpr const char* kClientProtocol = "org.apache.hadoop.hdfs.protocol.ClientProtocol";
inline constexpr const char* kDatanodeProtocol = "org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol";

// A larger answer than this is no answer of a NameNode.
inline constexpr uint32_t kMaxRpcFrameBytes = 128 << 20;

enum class RpcAuth : uint8_t { kSimple = 0, kSasl = 0xdf };

// What every frame of one client carries. `client_id` is 16 bytes, drawn once per process: the NameNode knows a resent
// call by it and the call's id.
struct RpcIdentity {
  std::string client_id;
  std::string effective_user;  // empty: the authentication says it
};

struct RpcCallHead {
  int32_t call_id = 0;
  int32_t retry_count = 0;
  std::string_view protocol;  // kClientProtocol, ...
  std::string_view method;
};

std::string RpcPreamble(RpcAuth auth);
std::string RpcContextFrame(const RpcIdentity& identity, std::string_view protocol);
std::string RpcPingFrame(std::string_view client_id);
// `body` is the serialised request message.
std::string RpcCallFrame(const RpcIdentity& identity, const RpcCallHead& head, std::string_view body);
std::string RpcSaslFrame(const wire::RpcSasl& message);

// An answer: the header, and behind it the bytes that hold one delimited message on success.
struct RpcAnswer {
  int32_t call_id = 0;  // signed again: -33 travels as 4294967263
  wire::RpcResponseHeader header;
  std::string_view rest;  // into the frame
};

// `frame` without its four bytes of length. kDataLoss.
Result<RpcAnswer> ParseRpcAnswer(std::string_view frame);

// The one delimited message in `rest`. kDataLoss.
Result<std::string_view> DelimitedBody(std::string_view rest);

// kUnavailable or kUnimplemented when the first bytes of an answer are no length but the refusal of a server that
// speaks HTTP or another version of RPC; ok otherwise.
Status CheckFirstBytes(std::string_view four_bytes);

}  // namespace paceline::hdfs
