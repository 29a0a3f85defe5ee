#include "lib/deps/secret_scan.h"

#include <gtest/gtest.h>

namespace paceline::deps {
namespace {

// Put together here, so that no scanner stumbles over this file.
std::string Key() {
  std::string body;
  for (int i = 0; i < 4; ++i) body += "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n";
  return std::string("-----BEGIN RSA PRIVATE ") + "KEY-----\n" + body;
}
std::string Letters(size_t size) {
  std::string text;
  while (text.size() < size) text += "aB3dE6gH";
  return text.substr(0, size);
}

TEST(SecretScan, FindsWhatMustNotTravel) {
  const struct {
    std::string path, text, found;
  } cases[] = {
      {"/v/id.txt", Key(), "a private key"},
      {"/v/a.py", "x = '" + ("ghp_" + Letters(36)) + "'", "a token of GitHub"},
      {"/v/a.py", "glpat-" + Letters(20), "a token of GitLab"},
      {"/v/a.py", "AKIA" + std::string("ABCDEFGHIJKLMNO2"), "an access key of AWS"},
      {"/v/pip.conf", "url = https://me:hunter2@h/simple", "a URL with a password"},
      {"/v/x.dist-info/direct_url.json", "{\"url\": \"https://me:hunter2@h/x.git\"}", "a URL with a password"},
      {"/v/.git/config", "url = https://me:hunter2@h/x.git", "a URL with a password"},
  };
  for (const auto& c : cases) EXPECT_EQ(FindSecret(c.path, c.text), c.found) << c.path;
}

TEST(SecretScan, LeavesAloneWhatOnlyLooksLikeIt) {
  const struct {
    std::string path, text;
  } cases[] = {
      {"/v/tornado/test/test.key", Key()},
      {"/v/a.py", std::string("if '-----BEGIN PRIVATE ") + "KEY-----' in text:\n    return True\n"},
      {"/v/a.py", "ghp_" + std::string(36, 'x')},
      {"/v/a.py", "my_ghp_" + Letters(36)},
      {"/v/a.py", "ghp_" + Letters(35)},
      {"/v/a.py", "'https://me:hunter2@h/'  # a docstring"},
      {"/v/x.conf", "https://user:password@h/ https://$USER:$PASS@h/ https://u:{pw}@h https://h:80/a@b"},
      {"/v/cacert.pem", "-----BEGIN CERTIFICATE-----\n" + Letters(200)},
      {"/v/empty.conf", ""},
  };
  for (const auto& c : cases) EXPECT_EQ(FindSecret(c.path, c.text), "") << c.path << ": " << c.text;
}

TEST(SecretScan, ReadsAnything) {
  const std::string text = Key() + "https://a:b@c ghp_" + Letters(36);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string flipped = text.substr(0, i);
    FindSecret("/a.conf", flipped);
    flipped = text;
    flipped[i] = static_cast<char>(flipped[i] ^ 0xff);
    FindSecret("/a.conf", flipped);
  }
  EXPECT_TRUE(IsText("plain"));
  EXPECT_FALSE(IsText(std::string("a\0b", 3)));
}

}  // namespace
}  // namespace paceline::deps
