#include "lib/api/annotations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/api/names.h"

namespace paceline::api {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Annotations = std::map<std::string, std::string>;

TEST(Annotations, MirrorTheFieldsOfTrainingJob) {
  const AnnotatedSettings read = ParseAnnotations({
      {"paceline.dev/enabled", "true"},
      {"paceline.dev/image-prefetch", "false"},
      {"paceline.dev/image-convert", "Auto"},
      {"paceline.dev/dependencies-install", "pip install -r requirements.txt"},
      {"paceline.dev/dependencies-inputs", "requirements.txt, constraints.txt\nsetup.cfg"},
      {"paceline.dev/dependencies-capture", "/opt/venv, /opt/conda"},
      {"paceline.dev/checkpoints",
       R"([{"name": "main", "uri": "hdfs://ns1/runs", "mountPath": "/ckpt", "readOnly": true, "layout": "striped",
            "memoryLimit": "1Gi", "prefetch": ["step_1"], "secretRef": {"name": "keytab"}}])"},
      {"paceline.dev/trace", "true"},
      {"paceline.dev/straggler-policy", "default"},
      {"kubectl.kubernetes.io/restartedAt", "now"},
  });
  EXPECT_THAT(read.errors, IsEmpty());
  EXPECT_TRUE(read.is_enabled);
  EXPECT_FALSE(read.settings.startup.image.prefetch);
  EXPECT_EQ(read.settings.startup.image.convert, ConvertMode::kAuto);
  ASSERT_TRUE(read.settings.startup.dependencies.has_value());
  EXPECT_EQ(read.settings.startup.dependencies->install, "pip install -r requirements.txt");
  EXPECT_THAT(read.settings.startup.dependencies->inputs,
              ElementsAre("requirements.txt", "constraints.txt", "setup.cfg"));
  EXPECT_THAT(read.settings.startup.dependencies->capture, ElementsAre("/opt/venv", "/opt/conda"));
  const Checkpoint want = {.name = "main",
                           .uri = "hdfs://ns1/runs",
                           .mount_path = "/ckpt",
                           .read_only = true,
                           .layout = CheckpointLayout::kStriped,
                           .memory_limit = "1Gi",
                           .prefetch = {"step_1"},
                           .secret_ref = SecretReference{"keytab"}};
  EXPECT_THAT(read.settings.checkpoints, ElementsAre(want));
  EXPECT_TRUE(read.settings.tracing.enabled);
  EXPECT_EQ(read.settings.straggler_policy, "default");
}

TEST(Annotations, SayWhatIsWrongAndKeepTheDefault) {
  struct Case {
    std::string name;
    std::string value;
    std::string message;
  };
  const Case cases[] = {
      {"paceline.dev/enable", "true", "unknown annotation; did you mean paceline.dev/enabled?"},
      {"paceline.dev/dependency-install", "x", "unknown annotation; did you mean paceline.dev/dependencies-install?"},
      {"paceline.dev/zzzzzzzzzzzzzzzzzzzzzzzzzz", "x", "unknown annotation"},
      {"paceline.dev/enabled", "yes", "must be \"true\" or \"false\""},
      {"paceline.dev/image-prefetch", "", "must be \"true\" or \"false\""},
      {"paceline.dev/image-convert", "true", "must be one of Off, Auto"},
      {"paceline.dev/trace", "True", "must be \"true\" or \"false\""},
      {"paceline.dev/dependencies-install", " ", "must not be empty"},
      {"paceline.dev/dependencies-install", "pip \xff", "must be UTF-8 text"},
      {"paceline.dev/straggler-policy", "A B",
       "must consist of lower-case letters, digits, '-' and '.', and begin and end with a letter or digit"},
      {"paceline.dev/checkpoints", "/ckpt",
       "must be JSON: a list such as [{\"name\": \"main\", \"uri\": \"hdfs://ns/path\", \"mountPath\": \"/ckpt\"}]"},
      {"paceline.dev/checkpoints", "{}", "must be a JSON list"},
      {"paceline.dev/checkpoints", R"([{"name": "a", "uri": "s3://b/c", "mountPath": "/a"}])",
       "[0].uri: must be hdfs://<name service or host:port>/<path>"},
      {"paceline.dev/checkpoints", R"([{"name": "a", "uri": "hdfs://b/c", "mountpath": "/a"}])",
       "[0].mountPath: is required"},
      {"paceline.dev/checkpoints", R"([{"name": "a", "uri": "hdfs://b/c", "mountPath": "/a", "memoryLimit": "1 GB"}])",
       "[0].memoryLimit: must be a quantity such as 512Mi, 4G or 1.5 (suffixes Ki to Ei, k to E, m, u, n)"},
      {"paceline.dev/checkpoints",
       R"([{"name": "a", "uri": "hdfs://b/c", "mountPath": "/a"}, {"name": "b", "uri": "hdfs://b/c", "mountPath": "/a"}])",
       "must not mount two directories at the same mountPath"},
  };
  for (const Case& c : cases) {
    Annotations annotations = {{"paceline.dev/enabled", "true"}};
    annotations[c.name] = c.value;
    const AnnotatedSettings read = ParseAnnotations(annotations);
    ASSERT_FALSE(read.errors.empty()) << c.name << " = " << c.value;
    EXPECT_EQ(read.errors.front(), (FieldError{c.name, c.message}));
    EXPECT_EQ(read.settings, JobSettings{}) << c.name << " = " << c.value;
  }
}

TEST(Annotations, TheTemplateWinsKeyByKey) {
  const AnnotatedSettings read =
      ParseAnnotations({{"paceline.dev/enabled", "true"}, {"paceline.dev/trace", "true"}},
                       {{"paceline.dev/trace", "false"}, {"paceline.dev/straggler-policy", "p"}});
  EXPECT_TRUE(read.is_enabled);
  EXPECT_FALSE(read.settings.tracing.enabled);
  EXPECT_EQ(read.settings.straggler_policy, "p");
}

TEST(Annotations, OthersWithoutEnabledAreAnError) {
  EXPECT_THAT(
      ParseAnnotations({{"paceline.dev/trace", "true"}}).errors,
      ElementsAre(FieldError{"paceline.dev/enabled", "must be \"true\" for the other annotations to have an effect"}));
  // Switched off on purpose, or nothing of ours at all: nothing to say.
  EXPECT_THAT(ParseAnnotations({{"paceline.dev/enabled", "false"}, {"paceline.dev/trace", "true"}}).errors, IsEmpty());
  EXPECT_THAT(ParseAnnotations({{"example.com/x", "y"}, {"paceline.device/x", "y"}}).errors, IsEmpty());
  EXPECT_FALSE(ParseAnnotations({}).is_enabled);
}

TEST(Annotations, InputsNeedAnInstall) {
  const AnnotatedSettings read =
      ParseAnnotations({{"paceline.dev/enabled", "true"}, {"paceline.dev/dependencies-inputs", R"(["a,b", "c"])"}});
  EXPECT_THAT(read.errors, ElementsAre(FieldError{"paceline.dev/dependencies-inputs",
                                                  "has no effect without paceline.dev/dependencies-install"}));
  EXPECT_FALSE(read.settings.startup.dependencies.has_value());
}

TEST(Annotations, CaptureTakesAbsoluteDirectories) {
  const AnnotatedSettings read = ParseAnnotations({{"paceline.dev/enabled", "true"},
                                                   {"paceline.dev/dependencies-install", "make"},
                                                   {"paceline.dev/dependencies-capture", "venv"}});
  ASSERT_EQ(read.errors.size(), 1U);
  EXPECT_EQ(read.errors[0].path, "paceline.dev/dependencies-capture");
  EXPECT_THAT(read.settings.startup.dependencies->capture, IsEmpty());
}

TEST(Annotations, OursOnPodsAreNoMistakes) {
  Annotations annotations = {{"paceline.dev/enabled", "true"}};
  for (std::string_view name :
       {kJobKindLabel, kJobNameLabel, kJobUidLabel, kGenerationLabel, kRankLabel, kRunLabel, kInjectedAnnotation}) {
    annotations[std::string(name)] = "x";
  }
  EXPECT_THAT(ParseAnnotations(annotations).errors, IsEmpty());
}

TEST(Annotations, HugeValuesAreRefused) {
  const AnnotatedSettings read =
      ParseAnnotations({{"paceline.dev/enabled", "true"}, {"paceline.dev/checkpoints", std::string(1 << 20, '[')}});
  EXPECT_THAT(read.errors, ElementsAre(FieldError{"paceline.dev/checkpoints", "must have at most 256 KiB"}));
}

}  // namespace
}  // namespace paceline::api
