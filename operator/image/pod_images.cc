#include "operator/image/pod_images.h"

#include <algorithm>

#include "lib/blocks/registry/image_reference.h"
#include "operator/training_run/worker_facts.h"

namespace paceline::operator_ {
namespace {

// "registry/team/train@sha256:..." as kubelet has it from the runtime; a bare digest is that of the image's config.
std::string DigestIn(std::string_view image_id) {
  const size_t at = image_id.rfind('@');
  if (at == std::string_view::npos) return "";
  const std::string_view digest = image_id.substr(at + 1);
  return blocks::IsSha256Digest(digest) ? std::string(digest) : "";
}

const kube::ContainerSpec* SpecOf(const kube::PodView& pod, const kube::SharedString& container) {
  for (const kube::ContainerSpec& spec : pod.spec.containers) {
    if (spec.name == container) return &spec;
  }
  return nullptr;
}

void Add(PodImage image, std::vector<PodImage>* images) {
  const auto same = std::find_if(images->begin(), images->end(), [&](const PodImage& known) {
    return known.repository == image.repository && known.digest == image.digest && known.platform == image.platform;
  });
  if (same == images->end()) {
    images->push_back(std::move(image));
  } else {
    same->started = std::max(same->started, image.started);
  }
}

}  // namespace

std::vector<PodImage> ImagesOf(const std::vector<std::shared_ptr<const kube::PodView>>& pods,
                               const std::function<std::string(std::string_view node)>& architecture_of) {
  std::vector<PodImage> images;
  for (const auto& pod : pods) {
    if (pod->spec.node_name.empty()) continue;
    std::string architecture;
    for (const kube::ContainerStatus& status : pod->status.containers) {
      const kube::ContainerSpec* spec = SpecOf(*pod, status.name);
      if (spec == nullptr || status.image_id.empty()) continue;
      if (architecture.empty()) architecture = architecture_of(pod->spec.node_name);
      if (architecture.empty()) break;
      const Result<blocks::ImageReference> name = blocks::ParseImageReference(spec->image.view());
      if (!name.ok()) continue;  // which kubelet would not have run
      Add({name->registry + "/" + name->repository, DigestIn(status.image_id.view()), "linux/" + architecture,
           FirstStart(status).value_or(pod->status.start_time)},
          &images);
    }
  }
  return images;
}

bool IsAllowedRepository(std::string_view repository, const std::vector<std::string>& patterns) {
  const auto fits = [repository](std::string_view pattern) {
    if (!pattern.ends_with('*')) return repository == pattern;
    return repository.starts_with(pattern.substr(0, pattern.size() - 1));
  };
  return patterns.empty() || std::any_of(patterns.begin(), patterns.end(), fits);
}

}  // namespace paceline::operator_
