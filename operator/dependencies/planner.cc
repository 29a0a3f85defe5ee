#include "operator/dependencies/planner.h"

#include <nlohmann/json.hpp>

#include "lib/base/json.h"

namespace paceline::operator_ {
namespace {

// Of the pod's containers, the one that trains.
const Json* FirstContainer(const Json& pod) {
  const Json* container = FindJson(pod, "spec.containers.0");
  return container != nullptr && container->is_object() ? container : nullptr;
}

Result<std::map<std::string, std::string>> ReadMap(kube::Reader& server, const std::string& ns, const std::string& name,
                                                   Deadline deadline) {
  ASSIGN_OR_RETURN(const Json object, server.Get(kube::kConfigMaps, {ns, name}, deadline));
  std::map<std::string, std::string> contents;
  const Json* data = FindJson(object, "data");
  if (data == nullptr || !data->is_object()) return contents;
  for (const auto& [key, value] : data->items()) {
    if (value.is_string()) contents[key] = value.get<std::string>();
  }
  return contents;
}

}  // namespace

Result<InstallKey> InstallPlanner::MakeKey(const InstallRequest& request, const Json& container,
                                           const Result<ImageFacts>& image, Deadline deadline) const {
  const std::string why_not = WhyNotCaptured(request.settings.capture, container);
  if (!why_not.empty()) return InvalidArgumentError(why_not);
  if (!image.ok()) return InvalidArgumentError("the image is not known by its digest: " + image.status().message());
  const std::string machine = MachineOf(request.architecture);
  if (machine.empty()) {
    return InvalidArgumentError(
        "the pod may land on nodes of several architectures; set nodeSelector kubernetes.io/arch");
  }
  const auto read = [&](const std::string& name) { return ReadMap(server_, request.ns, name, deadline); };
  return MakeInstallKey({request.pod, container, request.settings, *image, request.ns, machine, read});
}

PlannedInstall InstallPlanner::Plan(const InstallRequest& request, Deadline deadline) const {
  PlannedInstall planned;
  const Json* container = FirstContainer(request.pod);
  if (container == nullptr || request.settings.install.empty()) return planned;
  const Deadline limit = deadline.Min(Deadline::After(clock_, limit_));
  const bool wants_key = request.settings.enabled && request.why_no_volume.empty();
  Result<ImageFacts> image = UnavailableError("the operator looks no images up");
  if (images_ != nullptr && (wants_key || !HasOwnCommand(*container))) {
    const std::string name = JsonStringOr(*container, "image", "").value_or("");
    image = images_->Find(name, request.architecture.empty() ? "amd64" : request.architecture, limit);
  }
  const std::vector<std::string> program = CommandOf(*container, image.ok() ? &*image : nullptr);
  if (!HasOwnCommand(*container) && !image.ok()) {
    planned.not_installed = "what the container runs stands in its image alone, which cannot be looked up (" +
                            image.status().message() + "); name the command in the pod";
  } else if (program.empty()) {
    planned.not_installed = "neither the pod nor its image names a command";
  }
  if (!planned.not_installed.empty()) return planned;
  if (!request.why_no_volume.empty()) {
    planned.not_cacheable = request.why_no_volume;
    planned.install = InstallByShell(request.settings, program);
    return planned;
  }
  std::optional<InstallKey> key;
  std::string reason = "dependencies.enabled is false";
  if (request.settings.enabled) {
    Result<InstallKey> made = MakeKey(request, *container, image, limit);
    reason = planned.not_cacheable = made.ok() ? "" : made.status().message();
    if (made.ok()) key = *std::move(made);
  }
  planned.install = InstallByWrapper(request.settings, key, reason, program);
  return planned;
}

}  // namespace paceline::operator_
