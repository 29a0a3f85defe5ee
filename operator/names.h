// Names of the objects that the operator makes. Every name is a pure function of the owner, so that a restarted
// operator, or two of them, ask the API server for the same name and the server settles who was first.
//
// Kubernetes allows a job name of 253 characters but a Service, a host name and a label value only 63, of a narrower
// alphabet. A name that does not fit is cut and gets a hash of the whole, so two long names stay apart. Thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace paceline::operator_ {

// The longest label of DNS (RFC 1035), and of a Kubernetes label value.
inline constexpr size_t kMaxDnsLabel = 63;

// `chars` (1..13) lower-case letters and digits that depend on the whole of `text`; the same on every machine and
// release.
std::string ShortHash(std::string_view text, size_t chars);

// `name` itself when it is a DNS label of at most `max_length` (10..63) characters that starts with a letter; else a
// readable part of it and "-" and 8 characters of its hash. The result is a valid Service name.
std::string DnsLabel(std::string_view name, size_t max_length);

// The headless Service of a TrainingJob, and the subdomain of its pods.
std::string ServiceName(std::string_view training_job);

// The Indexed Job of one start of a TrainingJob. Short enough that "<job>-<index>" is a host name for any index below
// 1,000,000 and any generation below 1,000,000.
std::string JobName(std::string_view training_job, int64_t generation);

// The host name that the Job controller gives to the pod of `index`.
std::string WorkerHostName(std::string_view job_name, int64_t index);

// The TrainingRun of one start of a job; a label value, so that pods can carry it. `generation` is the start's number.
std::string RunName(std::string_view job, std::string_view job_uid, int64_t generation);

// The ImageProfile of an image, for one platform ("linux/amd64"): one for each digest, whatever repository it is in.
std::string ImageProfileName(std::string_view digest, std::string_view platform);

// The Job that converts the image of a profile.
std::string ConversionJobName(std::string_view profile);

// The DependencySnapshot of a key (64 hexadecimal digits), in the key's namespace.
std::string SnapshotName(std::string_view key);

// The NodePlan of a node: the node's own name, which is unique in the cluster already.
std::string NodePlanName(std::string_view node);

}  // namespace paceline::operator_
