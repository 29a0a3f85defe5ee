// The name of an image in a registry, as people write it: "ubuntu", "ghcr.io/a/b:v1", "localhost:5000/a@sha256:...".
// A pure value; the rules are those of the distribution reference grammar with Docker's defaults.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace paceline::blocks {

struct ImageReference {
  std::string registry;    // host[:port] as people and hosts.toml folders name it: "docker.io"
  std::string repository;  // "library/ubuntu"
  std::string tag;         // "" when only a digest was given
  std::string digest;      // "sha256:..." or ""

  // Where the registry's API is: docker.io is served by another name.
  std::string ApiHost() const { return registry == "docker.io" ? "registry-1.docker.io" : registry; }
  // What a manifest is asked for by: the digest when there is one.
  const std::string& Selector() const { return digest.empty() ? tag : digest; }
  // "docker.io/library/ubuntu:latest", complete.
  std::string ToString() const;
};

// Without a registry the image is Docker Hub's; a one-part name there lies in "library/"; without tag and digest the
// tag is "latest". "docker://" in front is dropped. kInvalidArgument says what is wrong.
Result<ImageReference> ParseImageReference(std::string_view text);

// "sha256:" and 64 lower-case hexadecimal digits: the only form that this project takes, since it becomes part of
// paths and URLs.
bool IsSha256Digest(std::string_view text);

// The hexadecimal part of such a digest.
std::string_view DigestHex(std::string_view digest);

}  // namespace paceline::blocks
