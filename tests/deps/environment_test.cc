#include "lib/deps/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::deps {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(Environment, KeepsWhatDecidesTheInstallAndClearsTheRest) {
  const InstallEnvironment split = SplitEnvironment({{"PATH", "/bin"},
                                                     {"PIP_INDEX_URL", "https://me:pw@index.example/simple"},
                                                     {"PIP_TOKEN", "t0p"},
                                                     {"UV_CACHE_DIR", "/c"},
                                                     {"HTTPS_PROXY", "http://u:p@proxy:3128"},
                                                     {"HOME", "/root"},
                                                     {"LC_ALL", "C"},
                                                     {"RANK", "3"},
                                                     {"MY_SETTING", "1"},
                                                     {"GITLAB", "s3cret"}},
                                                    {{"MY_SETTING"}, {"GITLAB"}});
  EXPECT_THAT(split.keyed,
              ElementsAre(Pair("HTTPS_PROXY", "set"), Pair("MY_SETTING", "1"), Pair("PATH", "/bin"),
                          Pair("PIP_INDEX_URL", "https://index.example/simple"), Pair("UV_CACHE_DIR", "/c")));
  EXPECT_THAT(split.secrets, ElementsAre("GITLAB", "PIP_TOKEN"));
  EXPECT_THAT(split.passed, ElementsAre("GITLAB=s3cret", "HOME=/root", "HTTPS_PROXY=http://u:p@proxy:3128", "LC_ALL=C",
                                        "MY_SETTING=1", "PATH=/bin", "PIP_INDEX_URL=https://me:pw@index.example/simple",
                                        "PIP_TOKEN=t0p", "UV_CACHE_DIR=/c"));
}

TEST(Environment, UserInfoGoesOutOfEveryUrl) {
  const std::pair<const char*, const char*> cases[] = {
      {"https://u:p@h/x", "https://h/x"},
      {"https://u:p@ss@h/x", "https://h/x"},
      {"a https://u@h b http://h2/@x", "a https://h b http://h2/@x"},
      {"git+ssh://git@h/r.git", "git+ssh://h/r.git"},
      {"no url @ all", "no url @ all"},
      {"://", "://"},
      {"", ""},
  };
  for (const auto& [text, clean] : cases) EXPECT_EQ(WithoutUserInfo(text), clean);
}

}  // namespace
}  // namespace paceline::deps
