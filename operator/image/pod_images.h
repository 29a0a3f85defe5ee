// Which images the pods of a job run, by digest: read from what kubelet says of their containers, so each has been
// pulled by a node with the job's own rights. Pure; caller: the request reconciler.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/clock.h"
#include "lib/kube/views.h"

namespace paceline::operator_ {

struct PodImage {
  std::string repository;  // complete, "docker.io/library/python"
  std::string digest;      // empty: no registry knows it by one, it was put on the node by other means
  std::string platform;
  WallTime started;  // the last start of a container of it

  friend bool operator==(const PodImage&, const PodImage&) = default;
};

// Of all `pods` that are on a node, each image once. `architecture_of` a node, as nodes tell it ("amd64"); empty when
// it is not known, and the node's images are left out.
std::vector<PodImage> ImagesOf(const std::vector<std::shared_ptr<const kube::PodView>>& pods,
                               const std::function<std::string(std::string_view node)>& architecture_of);

// Whether one of `patterns` is the repository, or its beginning where the pattern ends in '*'. No patterns: any is.
bool IsAllowedRepository(std::string_view repository, const std::vector<std::string>& patterns);

}  // namespace paceline::operator_
