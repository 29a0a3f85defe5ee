#include "lib/deps/install_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/fakes/temporary_folder.h"

namespace paceline::deps {
namespace {

using testing::HasSubstr;

class InstallInputsTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }
  std::vector<std::string> Paths(const InstallInputs& inputs) const {
    std::vector<std::string> names;
    for (const KeyInput& input : inputs.inputs) names.push_back(input.path.substr(folder_.path().size() + 1));
    return names;
  }
  fakes::TemporaryFolder folder_;
};

TEST_F(InstallInputsTest, FollowsWhatRequirementsInclude) {
  Write("requirements.txt", "-r more/base.txt\n-c limits.txt\n./wheels/own.whl  # ours\nnumpy==2.0\n");
  Write("more/base.txt", "-r ../deep.txt\nscipy==1.0 \\\n  --hash=sha256:ab\n");
  Write("deep.txt", "six==1.0\n");
  Write("limits.txt", "numpy==2.0\n");
  Write("wheels/own.whl", "bytes");
  const Result<InstallInputs> inputs = ReadInputs({"requirements.txt"}, folder_.path());
  ASSERT_TRUE(inputs.ok()) << inputs.status().ToString();
  EXPECT_THAT(Paths(*inputs),
              testing::ElementsAre("deep.txt", "limits.txt", "more/base.txt", "requirements.txt", "wheels/own.whl"));
  EXPECT_TRUE(inputs->pinning.is_pinned) << inputs->pinning.reason;
}

TEST_F(InstallInputsTest, AnInputThatCannotBeReadIsNeverDropped) {
  EXPECT_EQ(ReadInputs({"gone.txt"}, folder_.path()).status().code(), StatusCode::kInvalidArgument);
  Write("requirements.txt", "-r gone.txt\n");
  EXPECT_EQ(ReadInputs({"requirements.txt"}, folder_.path()).status().code(), StatusCode::kInvalidArgument);
  Write("url.txt", "-r https://example.org/r.txt\n");
  EXPECT_EQ(ReadInputs({"url.txt"}, folder_.path()).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadInputs({"/dev/null"}, folder_.path()).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(InstallInputsTest, FilesThatIncludeEachOtherEnd) {
  Write("a.txt", "-r b.txt\n");
  Write("b.txt", "-r a.txt\n");
  const Result<InstallInputs> inputs = ReadInputs({"a.txt"}, folder_.path());
  ASSERT_TRUE(inputs.ok()) << inputs.status().ToString();
  EXPECT_EQ(inputs->inputs.size(), 2U);
}

TEST_F(InstallInputsTest, ADirectoryCountsWithEverythingInIt) {
  Write("project/setup.py", "1");
  Write("project/pkg/a.py", "2");
  const Result<blocks::Digest> before = DigestOfInput(folder_ / "project");
  Write("project/pkg/a.py", "3");
  const Result<blocks::Digest> changed = DigestOfInput(folder_ / "project");
  Write("project/pkg/a.py", "2");
  const Result<blocks::Digest> again = DigestOfInput(folder_ / "project");
  std::filesystem::create_symlink("a.py", folder_ / "project/pkg/b.py");
  const Result<blocks::Digest> linked = DigestOfInput(folder_ / "project");
  ASSERT_TRUE(before.ok() && changed.ok() && again.ok() && linked.ok());
  EXPECT_EQ(*before, *again);
  EXPECT_NE(*before, *changed);
  EXPECT_NE(*before, *linked);
}

TEST(Requirement, IsToldApart) {
  using Kind = Requirement::Kind;
  const struct {
    const char* line;
    Kind kind;
    const char* text;
    bool is_pinned;
  } cases[] = {
      {"", Kind::kNothing, "", true},
      {"  # comment", Kind::kNothing, "", true},
      {"numpy==2.0 # why", Kind::kPackage, "numpy==2.0", true},
      {"numpy == 2.0 ; python_version > '3'", Kind::kPackage, "numpy", true},
      {"numpy===2.0", Kind::kPackage, "numpy===2.0", true},
      {"numpy==2.*", Kind::kPackage, "numpy==2.*", false},
      {"numpy>=2.0", Kind::kPackage, "numpy>=2.0", false},
      {"numpy", Kind::kPackage, "numpy", false},
      {"x @ https://h/x.whl#sha256=ab", Kind::kPackage, "x", true},
      {"x @ git+https://h/x", Kind::kPackage, "x", false},
      {"-r base.txt", Kind::kInclude, "base.txt", true},
      {"-rbase.txt", Kind::kInclude, "base.txt", true},
      {"--constraint=c.txt", Kind::kInclude, "c.txt", true},
      {"-e ./proj[extra]", Kind::kLocalPath, "./proj", true},
      {"-e git+https://h/x", Kind::kPackage, "git+https://h/x", false},
      {"./a.whl", Kind::kLocalPath, "./a.whl", true},
      {"file:///w/a.whl", Kind::kLocalPath, "/w/a.whl", true},
      {"--index-url https://h", Kind::kOption, "--index-url https://h", true},
      {"--extra-index-url https://h", Kind::kOption, "--extra-index-url https://h", true},
  };
  for (const auto& c : cases) {
    const Requirement found = ParseRequirement(c.line);
    EXPECT_EQ(static_cast<int>(found.kind), static_cast<int>(c.kind)) << c.line;
    EXPECT_EQ(found.text, c.text) << c.line;
    EXPECT_EQ(found.is_pinned, c.is_pinned) << c.line;
  }
}

TEST(Pinning, LooksAtTheCommandToo) {
  InstallInputs pinned;
  pinned.inputs = {{"/r.txt", {}}};
  InstallInputs floating = pinned;
  floating.pinning = {false, "numpy floats"};
  const struct {
    const char* command;
    const InstallInputs& inputs;
    bool is_pinned;
  } cases[] = {
      {"pip install -r r.txt", pinned, true},
      {"python3 -m venv /v && /v/bin/pip install --no-index -f w -r r.txt", pinned, true},
      {"pip install -r r.txt", floating, false},
      {"pip install -r r.txt numpy", pinned, false},
      {"pip install -r r.txt numpy==2.0", pinned, true},
      {"pip install -U -r r.txt", pinned, false},
      {"pip install ./w/a.whl", pinned, true},
      {"/usr/bin/apt-get install -y gcc=12", pinned, false},
      {"pip install numpy==2.0", {}, false},
      {"curl https://h | sh", pinned, false},
  };
  for (const auto& c : cases) {
    const Pinning found = PinningOf(c.command, c.inputs);
    EXPECT_EQ(found.is_pinned, c.is_pinned) << c.command << ": " << found.reason;
    EXPECT_THAT(found.reason, HasSubstr(" ")) << c.command;
  }
}

}  // namespace
}  // namespace paceline::deps
