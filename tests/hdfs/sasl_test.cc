// The captured handshakes of the data port, computed again with our own code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/hdfs/digest_md5.h"
#include "lib/hdfs/protected_stream.h"
#include "lib/hdfs/proto/datatransfer.pb.h"
#include "lib/hdfs/rpc_sasl.h"
#include "lib/hdfs/sasl_crypto.h"
#include "lib/hdfs/token_file.h"
#include "lib/hdfs/wire_bytes.h"
#include "tests/hdfs/wire_capture.h"

namespace paceline::hdfs {
namespace {

std::string Part(const std::vector<CapturePart>& parts, const std::string& prefix) {
  for (const CapturePart& part : parts) {
    if (part.title.rfind(prefix, 0) == 0) return part.bytes;
  }
  ADD_FAILURE() << prefix << " is not in the capture";
  return "";
}

wire::DataTransferEncryptorMessage Message(const std::vector<CapturePart>& parts, const std::string& prefix) {
  wire::DataTransferEncryptorMessage message;
  EXPECT_TRUE(DelimitedReader(Part(parts, prefix)).Next(prefix, &message).ok());
  return message;
}

std::string Directive(const std::string& payload, const std::string& name) {
  for (const auto& [key, value] : ParseDirectives(payload).value_or({})) {
    if (key == name) return value;
  }
  return "";
}

// Answers the captured challenge with the captured randomness and compares with what Java answered.
DigestMd5Client Replay(const std::vector<CapturePart>& parts, const std::string& password, Qop level) {
  const std::string theirs = Message(parts, "client message 1").payload();
  DigestMd5Client client({.user = Directive(theirs, "username"),
                          .password = Base64Of(password),
                          .authzid = Directive(theirs, "authzid"),
                          .digest_uri = "hdfs/0"},
                         {Qop::kAuth, level});
  const Result<std::string> ours =
      client.Respond(Message(parts, "server message 0").payload(), Directive(theirs, "cnonce"));
  EXPECT_TRUE(ours.ok()) << ours.status().ToString();
  EXPECT_EQ(ours.value_or(""), theirs);
  EXPECT_TRUE(client.CheckFinal(Message(parts, "server message 1").payload()).ok());
  EXPECT_EQ(client.CheckFinal("rspauth=00000000000000000000000000000000").code(), StatusCode::kPermissionDenied);
  return client;
}

TEST(DigestMd5, AnswersAsJavaDoes) {
  const auto parts = LoadCapture("sasl-dt-digestmd5-auth-OpReadBlock");
  wire::OpReadBlock read;
  const std::string op = Part(parts, "op request");
  ASSERT_TRUE(DelimitedReader(std::string_view(op).substr(3)).Next("op", &read).ok());
  EXPECT_EQ(Replay(parts, read.header().base().token().password(), Qop::kAuth).qop(), Qop::kAuth);
  const auto write_parts = LoadCapture("sasl-dt-digestmd5-auth-OpWriteBlock");
  wire::OpWriteBlock write;
  const std::string write_op = Part(write_parts, "op request");
  ASSERT_TRUE(DelimitedReader(std::string_view(write_op).substr(3)).Next("op", &write).ok());
  Replay(write_parts, write.header().base().token().password(), Qop::kAuth);
}

TEST(DigestMd5, UnwrapsTheKeysOfAnEncryptedConnection) {
  for (const char* name : {"sasl-dt-digestmd5-privacy-aes-1", "sasl-dt-digestmd5-privacy-aes-2"}) {
    SCOPED_TRACE(name);
    const auto parts = LoadCapture(name);
    const DigestMd5Client client = Replay(parts, Part(parts, "block token password"), Qop::kAuthConf);
    ASSERT_EQ(client.qop(), Qop::kAuthConf);
    Result<std::unique_ptr<SaslProtection>> protection = client.MakeProtection();
    ASSERT_TRUE(protection.ok()) << protection.status().ToString();
    const wire::CipherOption option = Message(parts, "server message 1").cipher_options(0);
    const Result<std::string> key = (*protection)->Unwrap(option.in_key());
    ASSERT_TRUE(key.ok()) << key.status().ToString();
    if (std::string(name).back() == '1') {
      EXPECT_EQ(HexOf(*key), "baa2c810945a8c9e5cf83d2107b4e62f");
    }
    const Result<std::string> second = (*protection)->Unwrap(option.out_key());
    ASSERT_TRUE(second.ok()) << second.status().ToString();
    Result<std::unique_ptr<StreamCipher>> cipher = MakeAesCtr(*key, option.in_iv());
    ASSERT_TRUE(cipher.ok());
    const std::string clear = (*cipher)->Apply(Part(parts, "client bytes after"));
    EXPECT_EQ(HexOf(clear.substr(0, 2)), "001c");
    EXPECT_THAT(clear, testing::HasSubstr("BP-1959486747"));
  }
}

TEST(DigestMd5, RefusesALevelThatIsNotAllowed) {
  DigestMd5Client client({.user = "u", .password = "p", .digest_uri = "hdfs/0"}, {Qop::kAuthConf});
  EXPECT_EQ(client.Respond("realm=\"0\",nonce=\"n\",qop=\"auth\"", "c").status().code(), StatusCode::kPermissionDenied);
  DigestMd5Client weak({.user = "u", .password = "p", .digest_uri = "hdfs/0"}, {Qop::kAuthConf});
  EXPECT_THAT(weak.Respond("nonce=\"n\",qop=\"auth-conf\",cipher=\"rc4\"", "c").status().message(),
              testing::HasSubstr("3des"));
  EXPECT_EQ(weak.Respond("qop=\"auth-conf\"", "c").status().code(), StatusCode::kDataLoss);
}

TEST(DigestMd5, SurvivesCutAndFlippedBytes) {
  const std::string challenge =
      "realm=\"0\",nonce=\"a\\\"b\",qop=\"auth,auth-conf\",charset=utf-8,cipher=\"3des,rc4\",algorithm=md5-sess";
  ASSERT_TRUE(ParseDirectives(challenge).ok());
  EXPECT_EQ(Directive(challenge, "nonce"), "a\"b");
  for (size_t i = 0; i < challenge.size(); ++i) {
    std::string flipped = challenge;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 7)));
    ParseDirectives(flipped).status().IgnoreError();
    ParseDirectives(challenge.substr(0, i)).status().IgnoreError();
  }
}

TEST(Protection, NoticesEveryChangedByte) {
  // A client's wrapping read back by a party with the directions exchanged is what a server does; here both keys are
  // known, so the roles are played by the same keys: what Wrap makes with client keys is checked by a reader of client
  // keys.
  DigestMd5Client client({.user = "u", .password = "p", .digest_uri = "hdfs/0"}, {Qop::kAuthInt});
  ASSERT_TRUE(client.Respond("nonce=\"n\",qop=\"auth-int\"", "c").ok());
  Result<std::unique_ptr<SaslProtection>> protection = client.MakeProtection();
  ASSERT_TRUE(protection.ok());
  const std::string wrapped = (*protection)->Wrap("hello").value_or("");
  ASSERT_EQ(wrapped.size(), 5u + 16u);
  EXPECT_EQ(wrapped.substr(0, 5), "hello");
  EXPECT_EQ(wrapped.substr(15), std::string("\0\1\0\0\0\0", 6));
  EXPECT_EQ((*protection)->Unwrap(wrapped).status().code(), StatusCode::kDataLoss);  // the other direction's key
  EXPECT_EQ((*protection)->Unwrap("short").status().code(), StatusCode::kDataLoss);
}

TEST(ParseProtection, KnowsItsWords) {
  EXPECT_THAT(ParseProtection("k", "authentication, privacy").value_or({}),
              testing::ElementsAre(Qop::kAuth, Qop::kAuthConf));
  EXPECT_THAT(ParseProtection("k", "").value_or({Qop::kAuth}), testing::IsEmpty());
  EXPECT_THAT(ParseProtection("the.key", "secret").status().message(), testing::HasSubstr("the.key"));
}

TEST(IsExpectedPrincipal, FollowsItsTable) {
  const struct {
    const char *principal, *pattern, *named;
    bool want;
  } cases[] = {
      {"nn/localhost@TEST.BED", "", "nn/localhost", true},
      {"nn/_HOST@TEST.BED", "", "nn/host.example", true},
      {"nn/_HOST@TEST.BED", "", "nn/other", false},
      {"nn/_HOST@TEST.BED", "", "evil/host.example", false},
      {"", "", "nn/host.example", false},
      {"", "nn/*@TEST.BED", "nn/any", true},
      {"nn/x@R", "hdfs/*", "nn/x", false},
  };
  for (const auto& c : cases) {
    RpcSaslOptions options;
    options.principal = c.principal;
    options.principal_pattern = c.pattern;
    EXPECT_EQ(IsExpectedPrincipal(options, "host.example", c.named), c.want) << c.principal << " " << c.named;
  }
}

TEST(TokenFile, IsReadInBothFormats) {
  const std::string writable = std::string("HDTS\0\1\5alias\3idx\2pw", 19) + "\x15HDFS_DELEGATION_TOKEN" +
                               "\x0a"
                               "ha-hdfs:ns" +
                               std::string(1, '\0');
  wire::Credentials credentials;
  wire::CredentialsKv& entry = *credentials.add_tokens();
  entry.set_alias("alias");
  entry.mutable_token()->set_identifier("idx");
  entry.mutable_token()->set_password("pw");
  entry.mutable_token()->set_kind("HDFS_DELEGATION_TOKEN");
  entry.mutable_token()->set_service("ha-hdfs:ns");
  std::string protobuf("HDTS\1", 5);
  AppendDelimited(credentials, &protobuf);
  for (const std::string& file : {writable, protobuf}) {
    const auto tokens = ParseTokenFile(file);
    ASSERT_TRUE(tokens.ok()) << tokens.status().ToString();
    const auto token = FindDelegationToken(*tokens, {"10.0.0.1:8020", "ha-hdfs:ns"});
    ASSERT_TRUE(token.has_value());
    EXPECT_EQ(token->identifier, "idx");
    EXPECT_EQ(token->password, "pw");
    EXPECT_FALSE(FindDelegationToken(*tokens, {"other"}).has_value());
    for (size_t i = 0; i < file.size(); ++i) {
      if (i < 18) {
        EXPECT_FALSE(ParseTokenFile(file.substr(0, i)).ok()) << i;
      }
      std::string flipped = file;
      flipped[i] = static_cast<char>(flipped[i] ^ 0x80);
      ParseTokenFile(flipped).status().IgnoreError();
    }
  }
}

// Two streams that are each other's other end, without a network.
class MemoryStream final : public ByteStream {
 public:
  explicit MemoryStream(std::shared_ptr<std::string> bytes) : bytes_(std::move(bytes)) {}
  Result<size_t> ReadSome(char* out, size_t size, Deadline) override {
    const size_t take = std::min({size, bytes_->size(), size_t{7}});  // small pieces, as a network may give
    std::copy_n(bytes_->begin(), take, out);
    bytes_->erase(0, take);
    return take;
  }
  Status Write(std::string_view head, std::string_view body, Deadline) override {
    bytes_->append(head).append(body);
    return Status();
  }
  void Shutdown() override {}
  bool IsIdleAndOpen() override { return true; }

 private:
  const std::shared_ptr<std::string> bytes_;
};

TEST(AesStream, GivesTheBytesBack) {
  auto wire_bytes = std::make_shared<std::string>();
  const std::string key(16, 'k'), iv(16, 'i');
  const auto stream =
      MakeAesStream(std::make_unique<MemoryStream>(wire_bytes), *MakeAesCtr(key, iv), *MakeAesCtr(key, iv));
  ASSERT_TRUE(stream->Write("hello ", "world", Deadline::Infinite()).ok());
  ASSERT_TRUE(stream->Write("!", "", Deadline::Infinite()).ok());
  EXPECT_EQ(wire_bytes->find("hello"), std::string::npos);
  std::string back(12, '\0');
  ASSERT_TRUE(stream->ReadFull(back.data(), back.size(), Deadline::Infinite()).ok());
  EXPECT_EQ(back, "hello world!");
  EXPECT_FALSE(MakeAesCtr("short", iv).ok());
}

}  // namespace
}  // namespace paceline::hdfs
