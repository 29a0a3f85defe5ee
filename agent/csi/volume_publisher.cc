#include "agent/csi/volume_publisher.h"

#include <fmt/format.h>

namespace paceline::agent {
namespace {

constexpr std::string_view kKubeletPrefix =
    "csi.storage.k8s.io/";  // attributes that kubelet adds, not the pod's author
constexpr size_t kMostEndedVolumes = 256;
constexpr std::string_view kRecordSuffix = ".json";
constexpr std::string_view kBadRecordSuffix = ".damaged";
constexpr unsigned kStateMode = 0700;

std::string ValueOf(const std::map<std::string, std::string>& map, std::string_view key) {
  auto it = map.find(std::string(key));
  return it == map.end() ? std::string() : it->second;
}

// One PersistentVolume may be published for several pods of a node at a time; each is a volume of its own here.
std::string KeyForPod(const std::string& volume_id, const std::string& pod_uid) { return volume_id + "." + pod_uid; }

bool IsRecordName(std::string_view name) {
  return name.size() > kRecordSuffix.size() && name.substr(name.size() - kRecordSuffix.size()) == kRecordSuffix;
}

bool IsSameVolume(const VolumeSpec& a, const VolumeSpec& b) {
  return a.type == b.type && a.target.path == b.target.path && a.is_read_only == b.is_read_only &&
         a.attributes == b.attributes;
}

}  // namespace

// Two calls for one volume (kubelet gave up on the first and asks again) must not interleave.
class VolumePublisher::Turn {
 public:
  Turn(VolumePublisher& owner, std::string volume_id) : owner_(owner), volume_id_(std::move(volume_id)) {
    MutexLock lock(owner_.mutex_);
    is_held_ = owner_.busy_.insert(volume_id_).second;
  }
  ~Turn() {
    MutexLock lock(owner_.mutex_);
    if (is_held_) owner_.busy_.erase(volume_id_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  Status Check() const {
    if (is_held_) return Status();
    return AbortedError(fmt::format("another call for volume {} is still going on", volume_id_));
  }

 private:
  VolumePublisher& owner_;
  const std::string volume_id_;
  bool is_held_ = false;
};

VolumePublisher::VolumePublisher(Options options, VolumeHost& host, std::vector<std::unique_ptr<VolumeType>> types,
                                 const Clock& clock)
    : options_(std::move(options)), host_(host), types_(std::move(types)), clock_(clock) {}

Status VolumePublisher::Publish(const PublishRequest& request, Deadline deadline) {
  VolumeType* type = nullptr;
  ASSIGN_OR_RETURN(VolumeSpec spec, CheckRequest(request, &type));
  Turn turn(*this, spec.volume_id);
  RETURN_IF_ERROR(turn.Check());

  std::optional<VolumeRecord> known = Find(spec.volume_id);
  if (known && known->phase == VolumePhase::kUnpublishing) {
    // An end that was cut off; finish it, so that the new volume does not inherit anything.
    RETURN_IF_ERROR(RemoveVolume(*known, deadline));
    known.reset();
  }
  if (!known) return PublishNew(spec, *type, deadline);
  if (!IsSameVolume(known->spec, spec)) {
    return AlreadyExistsError(
        fmt::format("volume {} is published at {} with other settings", spec.volume_id, known->spec.target.path));
  }
  // Kept for this call alone; the record on disk has none.
  known->spec.secrets = spec.secrets;
  return PublishAgain(*std::move(known), *type, deadline);
}

Result<VolumeSpec> VolumePublisher::CheckRequest(const PublishRequest& request, VolumeType** type) const {
  VolumeSpec spec;
  if (!IsValidVolumeId(request.volume_id)) {
    return InvalidArgumentError(fmt::format("volume id \"{}\" is not usable", request.volume_id));
  }
  spec.volume_id = request.volume_id;
  ASSIGN_OR_RETURN(spec.target, ParseTargetPath(options_.kubelet_dir, request.target_path));
  spec.is_read_only = request.is_read_only;
  for (const auto& [key, value] : request.context) {
    const bool is_from_kubelet = key.compare(0, kKubeletPrefix.size(), kKubeletPrefix) == 0;
    if (key != "type" && !is_from_kubelet) spec.attributes[key] = value;
  }
  spec.pod.ns = ValueOf(request.context, "csi.storage.k8s.io/pod.namespace");
  spec.pod.name = ValueOf(request.context, "csi.storage.k8s.io/pod.name");
  spec.pod.uid = spec.target.pod_uid;
  spec.pod.service_account = ValueOf(request.context, "csi.storage.k8s.io/serviceAccount.name");
  const std::string uid = ValueOf(request.context, "csi.storage.k8s.io/pod.uid");
  if (!uid.empty() && uid != spec.pod.uid) {
    return InvalidArgumentError(fmt::format("target path {} is not of the pod {}", spec.target.path, uid));
  }
  spec.type = ValueOf(request.context, "type");
  *type = FindType(spec.type);
  if (*type == nullptr) {
    std::string known;
    for (const auto& candidate : types_) known += fmt::format("{}{}", known.empty() ? "" : ", ", candidate->name());
    if (spec.type.empty()) return InvalidArgumentError("attribute type is missing; known types: " + known);
    return InvalidArgumentError(fmt::format("unknown type \"{}\"; known types: {}", spec.type, known));
  }
  if (ValueOf(request.context, "csi.storage.k8s.io/ephemeral") == "false") {
    if (!(*type)->serves_persistent()) {
      return InvalidArgumentError(
          fmt::format("type {} is for inline volumes of a pod, not for persistent volumes", spec.type));
    }
    spec.volume_id = KeyForPod(spec.volume_id, spec.pod.uid);
    if (!IsValidVolumeId(spec.volume_id)) {
      return InvalidArgumentError(fmt::format("volumeHandle \"{}\" is too long", request.volume_id));
    }
  }
  spec.secrets = request.secrets;
  spec.has_secrets = !request.secrets.empty();
  RETURN_IF_ERROR((*type)->Validate(spec));
  return spec;
}

Status VolumePublisher::PublishNew(const VolumeSpec& spec, VolumeType& type, Deadline deadline) {
  VolumeRecord record;
  record.spec = spec;
  record.spec.secrets.clear();
  record.phase = VolumePhase::kPublishing;
  record.requested_at = clock_.WallNow();
  RETURN_IF_ERROR(Store(record).Annotate("record of volume " + spec.volume_id));

  Status published = type.Publish(spec, deadline);
  if (!published.ok()) {
    // kubelet takes most failures as final and then never calls unpublish, so clean up here. If that fails too the
    // record stays, and CleanUp finds it once the pod is gone.
    RemoveVolume(record, deadline).IgnoreError();
    return published;
  }
  record.phase = VolumePhase::kPublished;
  record.published_at = clock_.WallNow();
  record.spec.secrets.clear();
  Status stored = Store(record);
  // The volume is there, but a restarted agent would not know that it was promised. kUnavailable makes kubelet ask
  // again.
  if (!stored.ok()) return UnavailableError(stored.Annotate("record of volume " + spec.volume_id).message());
  return Status();
}

Status VolumePublisher::PublishAgain(VolumeRecord record, VolumeType& type, Deadline deadline) {
  // A volume that was promised stays when mending it fails: its pod may well be able to go on.
  Status published = type.Publish(record.spec, deadline);
  if (!published.ok()) return published;
  record.spec.secrets.clear();
  if (record.phase == VolumePhase::kPublished) {
    MutexLock lock(mutex_);
    auto it = records_.find(record.spec.volume_id);
    if (it != records_.end()) ++it->second.repeat_count;
    return Status();
  }
  record.phase = VolumePhase::kPublished;
  record.published_at = clock_.WallNow();
  Status stored = Store(record);
  if (!stored.ok()) return UnavailableError(stored.Annotate("record of volume " + record.spec.volume_id).message());
  return Status();
}

// kubelet names a PersistentVolume by its handle alone; which pod's it is says the target.
std::string VolumePublisher::KeyOf(const std::string& volume_id, const TargetPath& target) const {
  const std::string of_pod = KeyForPod(volume_id, target.pod_uid);
  return !Find(volume_id) && Find(of_pod) ? of_pod : volume_id;
}

Status VolumePublisher::Unpublish(const std::string& id, const std::string& target_path, Deadline deadline) {
  if (!IsValidVolumeId(id)) return InvalidArgumentError(fmt::format("volume id \"{}\" is not usable", id));
  ASSIGN_OR_RETURN(TargetPath target, ParseTargetPath(options_.kubelet_dir, target_path));
  const std::string volume_id = KeyOf(id, target);
  Turn turn(*this, volume_id);
  RETURN_IF_ERROR(turn.Check());
  std::optional<VolumeRecord> known = Find(volume_id);
  if (known && known->spec.target.path == target.path) return RemoveVolume(*std::move(known), deadline);
  if (known) {
    return InvalidArgumentError(
        fmt::format("volume {} is published at {}, not at {}", volume_id, known->spec.target.path, target.path));
  }
  RETURN_IF_ERROR(RemoveUnrecorded(volume_id, target, deadline));
  return RemoveUnrecorded(KeyForPod(volume_id, target.pod_uid), target, deadline);
}

Status VolumePublisher::RemoveVolume(VolumeRecord record, Deadline deadline) {
  const std::string id = record.spec.volume_id;
  if (record.phase == VolumePhase::kPublished && options_.before_removal) options_.before_removal(record);
  if (record.phase != VolumePhase::kUnpublishing) {
    record.phase = VolumePhase::kUnpublishing;
    // On a full disk this mark cannot be written, and removing volumes is what would make room. Without it a restarted
    // agent puts the volume back, and kubelet, which got no answer, asks for its end again.
    Store(record).IgnoreError();
  }
  VolumeType* type = FindType(record.spec.type);
  if (type != nullptr) {
    RETURN_IF_ERROR(type->Unpublish(record.spec, deadline));
  } else {  // published by a newer agent, before a downgrade: at least nothing stays mounted
    RETURN_IF_ERROR(RemoveUnrecorded(id, record.spec.target, deadline));
  }
  RETURN_IF_ERROR(Forget(id).Annotate("record of volume " + id));
  if (!record.published_at) return Status();
  record.unpublished_at = clock_.WallNow();
  MutexLock lock(mutex_);
  ended_.push_back(std::move(record));
  if (ended_.size() > kMostEndedVolumes) ended_.pop_front();
  return Status();
}

// Without a record nobody knows the type, so each one looks for what is its own.
Status VolumePublisher::RemoveUnrecorded(const std::string& volume_id, const TargetPath& target, Deadline deadline) {
  VolumeSpec spec;
  spec.volume_id = volume_id;
  spec.target = target;
  spec.pod.uid = target.pod_uid;
  for (const auto& type : types_) {
    spec.type = type->name();
    RETURN_IF_ERROR(type->Unpublish(spec, deadline));
  }
  return Status();
}

Result<RecoveryReport> VolumePublisher::Recover(Deadline deadline) {
  RecoveryReport report;
  RETURN_IF_ERROR(host_.MakeDirectory(options_.state_dir + "/volumes", kStateMode));
  RETURN_IF_ERROR(LoadRecords(&report));
  const std::vector<VolumeRecord> volumes = Volumes();
  Result<std::set<std::string>> pods = PodsOnDisk();
  if (!pods.ok() && !volumes.empty()) report.problems.push_back("pods on disk: " + pods.status().ToString());
  for (const VolumeRecord& record : volumes) {
    // When kubelet's folder cannot be read every pod would look gone; then none is.
    const bool is_pod_there = !pods.ok() || pods->count(record.spec.pod.uid) > 0;
    Status status = RecoverVolume(record, is_pod_there, deadline, &report);
    if (!status.ok()) report.problems.push_back(record.spec.volume_id + ": " + status.ToString());
  }
  for (const auto& type : types_) {
    Status status = type->RemoveOrphans([this](const std::string& id) { return Find(id).has_value(); });
    if (!status.ok()) report.problems.push_back(std::string(type->name()) + " orphans: " + status.ToString());
  }
  return report;
}

Status VolumePublisher::LoadRecords(RecoveryReport* report) {
  const std::string folder = options_.state_dir + "/volumes";
  ASSIGN_OR_RETURN(std::vector<std::string> names, host_.ListDirectory(folder));
  for (const std::string& name : names) {
    if (!IsRecordName(name)) continue;
    const std::string path = folder + "/" + name;
    Result<std::string> text = host_.ReadFile(path);
    if (!text.ok()) return text.status();
    Result<VolumeRecord> record = ParseVolumeRecord(*text, options_.kubelet_dir);
    if (record.ok() && RecordPath(record->spec.volume_id) != path) {
      record = DataLossError("volume record: its name and its volumeId differ");
    }
    if (!record.ok()) {
      report->problems.push_back(fmt::format("{}: {}; set aside", name, record.status().ToString()));
      host_.Rename(path, path + std::string(kBadRecordSuffix)).IgnoreError();  // an earlier one is kept; this is reread
      continue;
    }
    MutexLock lock(mutex_);
    const std::string id = record->spec.volume_id;
    records_[id] = *std::move(record);
  }
  return Status();
}

Status VolumePublisher::RecoverVolume(const VolumeRecord& record, bool is_pod_there, Deadline deadline,
                                      RecoveryReport* report) {
  if (!is_pod_there || record.phase == VolumePhase::kUnpublishing) {
    RETURN_IF_ERROR(RemoveVolume(record, deadline));
    ++report->removed;
    return Status();
  }
  ++report->kept;
  // A half-made volume is left as it is: kubelet got no answer and will ask for one thing or the other.
  if (record.phase == VolumePhase::kPublishing) return Status();
  VolumeType* type = FindType(record.spec.type);
  if (type == nullptr) return UnimplementedError("type " + record.spec.type + " is not known to this agent");
  return type->Publish(record.spec, deadline);
}

Status VolumePublisher::CleanUp(Deadline deadline) {
  Status first_failure;
  const auto note = [&first_failure](Status status) {
    if (!status.ok() && first_failure.ok()) first_failure = std::move(status);
  };
  const std::vector<VolumeRecord> volumes = Volumes();
  Result<std::set<std::string>> pods = PodsOnDisk();
  if (!pods.ok() && !volumes.empty()) note(pods.status());
  for (const VolumeRecord& record : volumes) {
    if (!pods.ok() || pods->count(record.spec.pod.uid) > 0) continue;
    Turn turn(*this, record.spec.volume_id);
    if (!turn.Check().ok()) continue;
    std::optional<VolumeRecord> current = Find(record.spec.volume_id);
    if (current) note(RemoveVolume(*std::move(current), deadline));
  }
  for (const auto& type : types_) note(type->TakeOutTrash());
  return first_failure;
}

std::vector<SeenVolume> VolumePublisher::Look(Deadline deadline) {
  std::vector<SeenVolume> seen;
  for (VolumeRecord& record : Volumes()) {
    SeenVolume& volume = seen.emplace_back(SeenVolume{std::move(record), std::nullopt, std::nullopt});
    VolumeType* type = FindType(volume.record.spec.type);
    if (volume.record.phase != VolumePhase::kPublished || type == nullptr) continue;
    std::optional<VolumeHealth> health = type->Look(volume.record.spec, deadline);
    if (!health) continue;
    volume.figures = std::move(health->figures);
    volume.dependencies = std::move(health->dependencies);
    if (!health->needs_mending) continue;
    const Status mended = Mend(volume.record.spec.volume_id, deadline);
    if (!mended.ok()) volume.figures->message += fmt::format("; not mended yet: {}", mended.message());
  }
  return seen;
}

SeenVolume VolumePublisher::LookAt(const VolumeRecord& volume, Deadline deadline) const {
  VolumeType* type = FindType(volume.spec.type);
  std::optional<VolumeHealth> health = type == nullptr ? std::nullopt : type->Look(volume.spec, deadline);
  if (!health) return {volume, std::nullopt, std::nullopt};
  return {volume, std::move(health->figures), std::move(health->dependencies)};
}

Status VolumePublisher::Mend(const std::string& volume_id, Deadline deadline) {
  Turn turn(*this, volume_id);
  RETURN_IF_ERROR(turn.Check());
  const std::optional<VolumeRecord> current = Find(volume_id);
  VolumeType* type = current ? FindType(current->spec.type) : nullptr;
  if (type == nullptr || current->phase != VolumePhase::kPublished) return Status();
  return type->Publish(current->spec, deadline);
}

Result<std::set<std::string>> VolumePublisher::PodsOnDisk() const {
  ASSIGN_OR_RETURN(std::vector<std::string> names, host_.ListDirectory(options_.kubelet_dir + "/pods"));
  return std::set<std::string>(names.begin(), names.end());
}

Status VolumePublisher::Store(const VolumeRecord& record) {
  RETURN_IF_ERROR(host_.WriteFile(RecordPath(record.spec.volume_id), RenderVolumeRecord(record)));
  MutexLock lock(mutex_);
  records_[record.spec.volume_id] = record;
  return Status();
}

Status VolumePublisher::Forget(const std::string& volume_id) {
  RETURN_IF_ERROR(host_.RemoveFile(RecordPath(volume_id)));
  MutexLock lock(mutex_);
  records_.erase(volume_id);
  return Status();
}

std::optional<VolumeRecord> VolumePublisher::Find(const std::string& volume_id) const {
  MutexLock lock(mutex_);
  auto it = records_.find(volume_id);
  if (it == records_.end()) return std::nullopt;
  return it->second;
}

VolumeType* VolumePublisher::FindType(std::string_view name) const {
  for (const auto& type : types_) {
    if (type->name() == name) return type.get();
  }
  return nullptr;
}

std::string VolumePublisher::RecordPath(const std::string& volume_id) const {
  return fmt::format("{}/volumes/{}{}", options_.state_dir, volume_id, kRecordSuffix);
}

std::vector<VolumeRecord> VolumePublisher::Volumes() const {
  MutexLock lock(mutex_);
  std::vector<VolumeRecord> volumes;
  volumes.reserve(records_.size());
  for (const auto& [id, record] : records_) volumes.push_back(record);
  return volumes;
}

std::vector<VolumeRecord> VolumePublisher::EndedVolumes() const {
  MutexLock lock(mutex_);
  return std::vector<VolumeRecord>(ended_.begin(), ended_.end());
}

}  // namespace paceline::agent
