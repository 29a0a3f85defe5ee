#include "operator/dependencies/image_facts.h"

#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "lib/base/mutex.h"
#include "lib/blocks/image/registry_source.h"
#include "lib/blocks/registry/registry_client.h"

namespace paceline::operator_ {
namespace {

constexpr Duration kTagLife = std::chrono::minutes(1);
constexpr size_t kMaxRemembered = 1024;

class RegistryLookup final : public ImageLookup {
 public:
  RegistryLookup(std::unique_ptr<blocks::RegistryClient> client, const Clock& clock)
      : client_(std::move(client)), clock_(clock) {}

  Result<ImageFacts> Find(const std::string& image, const std::string& architecture, Deadline deadline) override {
    const std::string name = architecture + " " + image;
    {
      MutexLock lock(mutex_);
      const auto found = remembered_.find(name);
      if (found != remembered_.end() && !found->second.until.Expired(clock_)) return found->second.facts;
    }
    ASSIGN_OR_RETURN(const blocks::ImageReference reference, blocks::ParseImageReference(image));
    ASSIGN_OR_RETURN(ImageFacts facts, Ask(reference, architecture, deadline));
    MutexLock lock(mutex_);
    if (remembered_.size() >= kMaxRemembered) remembered_.clear();
    const Deadline until = reference.digest.empty() ? Deadline::After(clock_, kTagLife) : Deadline::Infinite();
    remembered_.insert_or_assign(name, Remembered{facts, until});
    return facts;
  }

 private:
  struct Remembered {
    ImageFacts facts;
    Deadline until;
  };

  Result<ImageFacts> Ask(const blocks::ImageReference& image, const std::string& architecture, Deadline deadline) {
    ASSIGN_OR_RETURN(const blocks::StoredManifest root, client_->GetManifest(image, deadline));
    std::map<std::string, std::string> documents;  // by digest
    const auto read = [&](const blocks::Descriptor& blob) -> Result<std::string> {
      const std::string digest = blob.digest.ToString();
      if (blob.digest == root.descriptor.digest) return root.bytes;
      ASSIGN_OR_RETURN(documents[digest], blocks::ReadImageDocument(*client_, image, blob, deadline));
      return documents[digest];
    };
    blocks::Platform platform;
    platform.architecture = architecture;
    ASSIGN_OR_RETURN(const blocks::SourceImage source, blocks::ResolveImage(root.descriptor, platform, read));
    ASSIGN_OR_RETURN(ImageFacts facts, ParseImageConfig(documents[source.config.ToString()]));
    facts.digest = source.manifest.digest.ToString();
    return facts;
  }

  const std::unique_ptr<blocks::RegistryClient> client_;
  const Clock& clock_;
  Mutex mutex_;
  std::map<std::string, Remembered> remembered_ GUARDED_BY(mutex_);
};

std::vector<std::string> Texts(const Json& config, const char* path) {
  return JsonStrings(config, path).value_or(std::vector<std::string>());
}

}  // namespace

Result<ImageFacts> ParseImageConfig(std::string_view text) {
  const Result<Json> config = ParseJson(text);
  if (!config.ok() || !config->is_object()) return DataLossError("the image's config is no JSON document");
  ImageFacts facts;
  facts.entrypoint = Texts(*config, "config.Entrypoint");
  facts.command = Texts(*config, "config.Cmd");
  facts.user = JsonStringOr(*config, "config.User", "").value_or("");
  facts.directory = JsonStringOr(*config, "config.WorkingDir", "").value_or("");
  for (const std::string& entry : Texts(*config, "config.Env")) {
    const size_t equals = entry.find('=');
    if (equals != std::string::npos) facts.environment[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return facts;
}

Result<std::unique_ptr<ImageLookup>> NewRegistryLookup(blocks::RegistryOptions registry, const FileSystem& files,
                                                       const Clock& clock) {
  ASSIGN_OR_RETURN(std::unique_ptr<blocks::RegistryClient> client,
                   blocks::RegistryClient::New(std::move(registry), files, clock));
  return std::unique_ptr<ImageLookup>(std::make_unique<RegistryLookup>(std::move(client), clock));
}

}  // namespace paceline::operator_
