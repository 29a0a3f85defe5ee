#include "lib/hdfs/rpc_frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "lib/hdfs/proto/namenode.pb.h"
#include "lib/hdfs/wire_bytes.h"
#include "tests/hdfs/wire_capture.h"

namespace paceline::hdfs {
namespace {

using google::protobuf::MessageLite;

const std::string kClientId("\x24\x5c\x9c\x11\xdc\x7e\x48\xcd\xa6\x1c\x6e\x59\x5e\x7a\x26\x1d", 16);

template <typename Message>
std::unique_ptr<MessageLite> New() {
  return std::make_unique<Message>();
}

struct MethodMessages {
  std::function<std::unique_ptr<MessageLite>()> request, response;
};

#define METHOD(name, Name)                                        \
  {                                                               \
    name, { New<wire::Name##Request>, New<wire::Name##Response> } \
  }
const std::map<std::string, MethodMessages> kMethods = {
    METHOD("addBlock", AddBlock),
    METHOD("append", Append),
    METHOD("complete", Complete),
    METHOD("concat", Concat),
    METHOD("create", Create),
    METHOD("delete", Delete),
    METHOD("fsync", Fsync),
    METHOD("getBlockLocations", GetBlockLocations),
    METHOD("getFileInfo", GetFileInfo),
    {"getFsStats", {New<wire::GetFsStatusRequest>, New<wire::GetFsStatsResponse>}},
    METHOD("getListing", GetListing),
    METHOD("getServerDefaults", GetServerDefaults),
    METHOD("getXAttrs", GetXAttrs),
    METHOD("isFileClosed", IsFileClosed),
    METHOD("mkdirs", Mkdirs),
    METHOD("recoverLease", RecoverLease),
    METHOD("rename2", Rename2),
    METHOD("setPermission", SetPermission),
    METHOD("setReplication", SetReplication),
    METHOD("setTimes", SetTimes),
    METHOD("setXAttr", SetXAttr),
    METHOD("truncate", Truncate),
    METHOD("updateBlockForPipeline", UpdateBlockForPipeline),
    METHOD("updatePipeline", UpdatePipeline),
};
#undef METHOD

TEST(RpcFrame, MakesTheBytesOfJavasConnection) {
  const std::vector<CapturePart> parts = LoadCapture("rpc-00-connection");
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(RpcPreamble(RpcAuth::kSimple), parts[0].bytes);
  EXPECT_EQ(RpcContextFrame({kClientId, "alice"}, kClientProtocol), parts[1].bytes);
  EXPECT_EQ(RpcPreamble(RpcAuth::kSasl).back(), '\xdf');
}

TEST(RpcFrame, MakesAPingAndANegotiation) {
  const std::string ping = RpcPingFrame(kClientId);
  EXPECT_EQ(ping.substr(0, 13), std::string("\x00\x00\x00\x1b\x1a\x08\x02\x10\x00\x18\x07\x22\x10", 13));
  EXPECT_EQ(ping.substr(29), "\x28\x01");
  wire::RpcSasl negotiate;
  negotiate.set_state(kSaslNegotiate);
  EXPECT_EQ(RpcSaslFrame(negotiate),
            std::string("\x00\x00\x00\x0e\x0a\x08\x02\x10\x00\x18\x41\x22\x00\x28\x01\x02\x10\x01", 18));
}

// Decodes a captured call, then makes it again from what was decoded: the same bytes must come out.
void CheckRequest(const CapturePart& part, const std::string& method) {
  const std::string_view frame = part.bytes;
  ASSERT_EQ(LoadBigEndian32(frame.data()), frame.size() - 4);
  DelimitedReader reader(frame.substr(4));
  wire::RpcRequestHeader header;
  wire::RequestHeader request;
  ASSERT_TRUE(reader.Next("header", &header).ok());
  ASSERT_TRUE(reader.Next("request header", &request).ok());
  EXPECT_EQ(request.method(), method);
  const std::unique_ptr<MessageLite> body = kMethods.at(method).request();
  ASSERT_TRUE(reader.Next("body", body.get()).ok());
  EXPECT_TRUE(reader.rest().empty());
  const RpcCallHead head{header.call_id(), header.retry_count(), request.protocol(), request.method()};
  EXPECT_EQ(RpcCallFrame({header.client_id(), ""}, head, body->SerializeAsString()), frame);
}

void CheckResponse(const CapturePart& part, const std::string& method) {
  if (!part.is_whole) return;
  const std::string_view frame = part.bytes;
  ASSERT_EQ(LoadBigEndian32(frame.data()), frame.size() - 4);
  const Result<RpcAnswer> answer = ParseRpcAnswer(frame.substr(4));
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  std::string again;
  AppendDelimited(answer->header, &again);
  if (answer->header.status() == 0) {
    const Result<std::string_view> bytes = DelimitedBody(answer->rest);
    ASSERT_TRUE(bytes.ok());
    const std::unique_ptr<MessageLite> body = kMethods.at(method).response();
    ASSERT_TRUE(body->ParseFromArray(bytes->data(), static_cast<int>(bytes->size())));
    AppendDelimited(*body, &again);
  }
  EXPECT_EQ(again, frame.substr(4));
}

TEST(RpcFrame, DecodesAndMakesAgainEveryCapturedCall) {
  int checked = 0;
  for (const std::string& name : CaptureNames("rpc-")) {
    std::string method = name.substr(4);
    method = method.substr(0, method.find('-'));
    if (kMethods.count(method) == 0) continue;  // the connection, and a call that we never make
    SCOPED_TRACE(name);
    const std::vector<CapturePart> parts = LoadCapture(name);
    ASSERT_EQ(parts.size(), 2u);
    CheckRequest(parts[0], method);
    CheckResponse(parts[1], method);
    ++checked;
  }
  EXPECT_EQ(checked, 29);
}

TEST(RpcFrame, SurvivesCutAndFlippedBytes) {
  for (const char* name : {"rpc-getListing", "rpc-addBlock", "rpc-concat-1-error"}) {
    const std::string frame = LoadCapture(name).at(1).bytes.substr(4);
    for (size_t i = 0; i < frame.size(); ++i) {
      const std::string cut = frame.substr(0, i);
      Result<RpcAnswer> answer = ParseRpcAnswer(cut);
      const bool is_whole = answer.ok() && (answer->header.status() != 0 || DelimitedBody(answer->rest).ok());
      EXPECT_FALSE(is_whole) << name << " cut at " << i;
      std::string flipped = frame;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 8)));
      answer = ParseRpcAnswer(flipped);
      if (!answer.ok()) continue;
      const Result<std::string_view> body = DelimitedBody(answer->rest);
      wire::GetListingResponse listing;
      if (body.ok()) ParseMessage(*body, &listing);
    }
  }
}

TEST(RpcFrame, KnowsServersThatSpeakSomethingElse) {
  EXPECT_THAT(CheckFirstBytes("HTTP").message(), testing::HasSubstr("8020"));
  EXPECT_FALSE(CheckFirstBytes("\xff\xff\xff\xff").ok());
  EXPECT_TRUE(CheckFirstBytes(std::string_view("\0\0\0\x58", 4)).ok());
}

}  // namespace
}  // namespace paceline::hdfs
