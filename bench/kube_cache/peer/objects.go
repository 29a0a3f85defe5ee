package main

import (
	"encoding/json"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var created = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

// Namespaces that the jobs are in.
const teams = 20

func later(seconds int) metav1.Time {
	return metav1.NewTime(created.Add(time.Duration(seconds) * time.Second))
}

func uid(kind, i int) types.UID {
	return types.UID(fmt.Sprintf("%08x-%04x-4000-8000-%012x", i*2654435761&0xffffffff, kind, i))
}

func pointer[T any](value T) *T { return &value }

// managedFields as the API server would have recorded them: half of what is served of a pod's metadata.
func managed(manager, subresource string, fields any) metav1.ManagedFieldsEntry {
	raw, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &created,
		FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: raw}, Subresource: subresource,
	}
}

type fields = map[string]any

var none = fields{}

// worker is pod `i` of a training job with 16 workers, running, about 6.8 kB of JSON.
func worker(i, nodes int) *corev1.Pod {
	job := i / 16
	name := fmt.Sprintf("llm-pretrain-%05d-worker-%02d-%05x", job, i%16, i*7919&0xfffff)
	port := func(name string, number int32) corev1.ContainerPort {
		return corev1.ContainerPort{Name: name, ContainerPort: number, Protocol: corev1.ProtocolTCP}
	}
	env := func(pairs ...string) (out []corev1.EnvVar) {
		for k := 0; k < len(pairs); k += 2 {
			out = append(out, corev1.EnvVar{Name: pairs[k], Value: pairs[k+1]})
		}
		return out
	}
	mounts := []corev1.VolumeMount{
		{Name: "checkpoints", MountPath: "/checkpoints"}, {Name: "dshm", MountPath: "/dev/shm"},
		{Name: "kube-api-access-x7k2p", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
	}
	limits := corev1.ResourceList{
		"cpu": resource.MustParse("64"), "memory": resource.MustParse("512Gi"), "nvidia.com/gpu": resource.MustParse("8"),
	}
	condition := func(kind corev1.PodConditionType, at int) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: later(at)}
	}
	image := "registry.example.com/platform/pretrain:2026.01.2"
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: later(40)}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, GenerateName: fmt.Sprintf("llm-pretrain-%05d-worker-", job), Namespace: fmt.Sprintf("team-%02d", job%teams),
			UID: uid(1, i), CreationTimestamp: created, Generation: 1,
			Labels: map[string]string{
				"app.kubernetes.io/name": "llm-pretrain", "batch.kubernetes.io/job-name": fmt.Sprintf("llm-pretrain-%05d", job),
				"batch.kubernetes.io/job-completion-index": fmt.Sprint(i % 16), "batch.kubernetes.io/controller-uid": string(uid(2, job)),
				"paceline.dev/run": fmt.Sprintf("llm-pretrain-%05d-1", job), "team": fmt.Sprintf("team-%02d", job%teams),
			},
			Annotations: map[string]string{
				"batch.kubernetes.io/job-completion-index": fmt.Sprint(i % 16), "paceline.dev/enabled": "true",
				"k8s.v1.cni.cncf.io/network-status": fmt.Sprintf(`[{"name":"cbr0","interface":"eth0","ips":["10.%d.%d.%d"],"mac":"02:42:0a:00:00:01","default":true,"dns":{}}]`, i>>16&255, i>>8&255, i&255),
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "batch/v1", Kind: "Job", Name: fmt.Sprintf("llm-pretrain-%05d", job), UID: uid(2, job),
				Controller: pointer(true), BlockOwnerDeletion: pointer(true),
			}},
			ManagedFields: []metav1.ManagedFieldsEntry{
				managed("kube-controller-manager", "", fields{"f:metadata": fields{
					"f:annotations":  fields{".": none, "f:batch.kubernetes.io/job-completion-index": none},
					"f:generateName": none, "f:labels": fields{".": none, "f:batch.kubernetes.io/job-name": none, "f:team": none},
					"f:ownerReferences": fields{".": none, fmt.Sprintf(`k:{"uid":"%s"}`, uid(2, job)): none}},
					"f:spec": fields{"f:containers": fields{`k:{"name":"worker"}`: fields{".": none, "f:args": none, "f:command": none,
						"f:env":   fields{".": none, `k:{"name":"MASTER_ADDR"}`: fields{".": none, "f:name": none, "f:value": none}},
						"f:image": none, "f:imagePullPolicy": none, "f:name": none, "f:resources": none, "f:volumeMounts": none}},
						"f:dnsPolicy": none, "f:enableServiceLinks": none, "f:restartPolicy": none, "f:schedulerName": none,
						"f:securityContext": none, "f:terminationGracePeriodSeconds": none, "f:tolerations": none, "f:volumes": none}}),
				managed("kubelet", "status", fields{"f:status": fields{"f:conditions": fields{
					`k:{"type":"ContainersReady"}`: fields{".": none, "f:lastProbeTime": none, "f:lastTransitionTime": none, "f:status": none, "f:type": none},
					`k:{"type":"Initialized"}`:     fields{".": none, "f:lastProbeTime": none, "f:lastTransitionTime": none, "f:status": none, "f:type": none},
					`k:{"type":"Ready"}`:           fields{".": none, "f:lastProbeTime": none, "f:lastTransitionTime": none, "f:status": none, "f:type": none}},
					"f:containerStatuses": none, "f:hostIP": none, "f:phase": none, "f:podIP": none, "f:startTime": none}}),
			},
		},
		Spec: corev1.PodSpec{
			NodeName: fmt.Sprintf("gpu-node-%05d", i%nodes), RestartPolicy: corev1.RestartPolicyNever, SchedulerName: "default-scheduler",
			ServiceAccountName: "training", DeprecatedServiceAccount: "training", DNSPolicy: corev1.DNSClusterFirst,
			TerminationGracePeriodSeconds: pointer(int64(30)), SecurityContext: &corev1.PodSecurityContext{},
			EnableServiceLinks: pointer(true), PreemptionPolicy: pointer(corev1.PreemptLowerPriority), Priority: pointer(int32(0)),
			InitContainers: []corev1.Container{{
				Name: "wait-dns", Image: image, Command: []string{"/bin/sh", "-c", "until getent hosts $MASTER_ADDR; do sleep 1; done"},
				ImagePullPolicy: corev1.PullIfNotPresent, TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File",
			}},
			Containers: []corev1.Container{{
				Name: "worker", Image: image, Command: []string{"torchrun"},
				Args: []string{"--nnodes=16", "--nproc-per-node=8", "--rdzv-backend=c10d", "--rdzv-endpoint=$(MASTER_ADDR):29500", "train.py", "--config", "/etc/pretrain/config.yaml"},
				Env: env("MASTER_ADDR", fmt.Sprintf("worker-0.llm-pretrain-%05d", job), "MASTER_PORT", "29500", "WORLD_SIZE", "128", "NODE_RANK", fmt.Sprint(i%16),
					"NCCL_DEBUG", "WARN", "NCCL_IB_HCA", "mlx5", "NCCL_SOCKET_IFNAME", "eth0"),
				Ports: []corev1.ContainerPort{port("rdzv", 29500), port("metrics", 9464)}, VolumeMounts: mounts,
				Resources:       corev1.ResourceRequirements{Limits: limits, Requests: limits},
				ImagePullPolicy: corev1.PullIfNotPresent, TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File",
			}},
			Volumes: []corev1.Volume{
				{Name: "checkpoints", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "csi.paceline.dev", VolumeAttributes: map[string]string{"type": "checkpoint", "path": "/training/llm"}}}},
				{Name: "dshm", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
				{Name: "kube-api-access-x7k2p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: pointer(int32(420)),
					Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: pointer(int64(3607))}},
						{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}}}}}},
			},
			Tolerations: []corev1.Toleration{
				{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
				{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: pointer(int64(300))},
			},
			Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: "kubernetes.io/hostname", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"batch.kubernetes.io/job-name": fmt.Sprintf("llm-pretrain-%05d", job)}}}}}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, HostIP: fmt.Sprintf("10.128.%d.%d", i%nodes>>8, i%nodes&255), PodIP: fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255),
			HostIPs: []corev1.HostIP{{IP: fmt.Sprintf("10.128.%d.%d", i%nodes>>8, i%nodes&255)}}, PodIPs: []corev1.PodIP{{IP: fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255)}},
			QOSClass: corev1.PodQOSGuaranteed, StartTime: pointer(later(2)),
			Conditions: []corev1.PodCondition{condition(corev1.PodReadyToStartContainers, 5), condition(corev1.PodInitialized, 30), condition(corev1.PodReady, 41), condition(corev1.ContainersReady, 41), condition(corev1.PodScheduled, 2)},
			InitContainerStatuses: []corev1.ContainerStatus{{
				Name: "wait-dns", Image: image, ImageID: "registry.example.com/platform/pretrain@sha256:2f1d0d3f1f0e7fd0c2a1a9f1f2b5a0c64d7e8f90a1b2c3d4e5f60718293a4b5c", Ready: true,
				ContainerID: fmt.Sprintf("containerd://%064x", i*3), Started: pointer(false),
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: later(20), FinishedAt: later(29), ContainerID: fmt.Sprintf("containerd://%064x", i*3)}},
			}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "worker", Image: image, ImageID: "registry.example.com/platform/pretrain@sha256:2f1d0d3f1f0e7fd0c2a1a9f1f2b5a0c64d7e8f90a1b2c3d4e5f60718293a4b5c", Ready: true,
				ContainerID: fmt.Sprintf("containerd://%064x", i), Started: pointer(true), State: running,
			}},
		},
	}
}

func gpuNode(i int) *corev1.Node {
	name := fmt.Sprintf("gpu-node-%05d", i)
	quantities := corev1.ResourceList{
		"cpu": resource.MustParse("192"), "memory": resource.MustParse("2048Gi"), "ephemeral-storage": resource.MustParse("7Ti"),
		"nvidia.com/gpu": resource.MustParse("8"), "rdma/hca": resource.MustParse("8"), "pods": resource.MustParse("250"),
	}
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, Message: message, LastHeartbeatTime: later(600), LastTransitionTime: later(1)}
	}
	images := []corev1.ContainerImage{}
	for k := 0; k < 12; k++ {
		images = append(images, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example.com/platform/image-%02d@sha256:%064x", k, k+1), fmt.Sprintf("registry.example.com/platform/image-%02d:2026.01", k)}, SizeBytes: int64(k+1) << 28})
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: uid(3, i), CreationTimestamp: created,
			Labels: map[string]string{
				"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "gpu-h200-8x",
				"topology.kubernetes.io/zone": fmt.Sprintf("zone-%d", i%3), "topology.kubernetes.io/rack": fmt.Sprintf("rack-%03d", i/16), "nvidia.com/gpu.product": "NVIDIA-H200",
			},
			Annotations: map[string]string{"node.alpha.kubernetes.io/ttl": "300", "volumes.kubernetes.io/controller-managed-attach-detach": "true"},
		},
		Spec: corev1.NodeSpec{
			PodCIDR: fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255), PodCIDRs: []string{fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255)}, ProviderID: "example://zone/" + name,
			Taints: []corev1.Taint{{Key: "nvidia.com/gpu", Value: "present", Effect: corev1.TaintEffectNoSchedule, TimeAdded: &created}},
		},
		Status: corev1.NodeStatus{
			Capacity: quantities, Allocatable: quantities, Images: images,
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.128.%d.%d", i>>8, i&255)}, {Type: corev1.NodeHostName, Address: name}},
			Conditions: []corev1.NodeCondition{
				condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
				condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
				condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
				condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"),
			},
			NodeInfo: corev1.NodeSystemInfo{
				MachineID: fmt.Sprintf("%032x", i), SystemUUID: string(uid(4, i)), BootID: string(uid(5, i)), KernelVersion: "6.12.30", OSImage: "Debian GNU/Linux 12 (bookworm)",
				ContainerRuntimeVersion: "containerd://2.4.2", KubeletVersion: "v1.34.4", KubeProxyVersion: "", OperatingSystem: "linux", Architecture: "amd64",
			},
		},
	}
}

func failedPod() *corev1.Pod {
	pod := worker(77, 100)
	pod.DeletionTimestamp = pointer(later(900))
	pod.DeletionGracePeriodSeconds = pointer(int64(30))
	pod.Finalizers = []string{"batch.kubernetes.io/job-tracking", "paceline.dev/trace"}
	pod.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = `{"apiVersion":"v1"}`
	pod.Annotations["note"] = "tab\t, quote \", slash \\, line\nbreak, ünï©ode \U0001F680, angle <&>, nul-free"
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}, {Name: "example.com/topology"}}
	pod.Spec.InitContainers[0].RestartPolicy = pointer(corev1.ContainerRestartPolicyAlways)
	pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "Evicted", "The node was low on resource: memory."
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 137, Signal: 9, Reason: "OOMKilled", Message: "killed", StartedAt: later(40), FinishedAt: later(800)}}
	pod.Status.ContainerStatuses[0].LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: -1, Reason: "Error"}}
	pod.Status.ContainerStatuses[0].Ready, pod.Status.ContainerStatuses[0].RestartCount = false, 3
	pod.Status.InitContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image"}}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "PreemptionByScheduler", Message: "preempted", LastTransitionTime: later(790)})
	return pod
}

func event() *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "llm-pretrain.17f0", Namespace: "team-01", UID: uid(6, 1), CreationTimestamp: created},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "team-01", Name: "llm-pretrain-0", UID: uid(1, 1), APIVersion: "v1", FieldPath: "spec.containers{worker}"},
		Reason:         "Pulled", Message: "Successfully pulled image in 12.3s", Source: corev1.EventSource{Component: "kubelet", Host: "gpu-node-00001"},
		FirstTimestamp: later(3), LastTimestamp: later(9), Count: 4, Type: "Normal",
		EventTime: metav1.NewMicroTime(created.Add(1234567 * time.Microsecond)), ReportingController: "kubelet", ReportingInstance: "gpu-node-00001",
		Action: "Pulling", Series: &corev1.EventSeries{Count: 4, LastObservedTime: metav1.NewMicroTime(created.Time)},
	}
}

func job() *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "llm-pretrain", Namespace: "team-01", UID: uid(2, 1), Generation: 2, CreationTimestamp: created, Annotations: map[string]string{"paceline.dev/enabled": "true"}},
		Spec: batchv1.JobSpec{
			Parallelism: pointer(int32(16)), Completions: pointer(int32(16)), BackoffLimit: pointer(int32(0)), Suspend: pointer(true),
			CompletionMode: pointer(batchv1.IndexedCompletion), ManagedBy: pointer("kubernetes.io/job-controller"),
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "1", "b": "2"}, Annotations: map[string]string{"paceline.dev/trace": "on"}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "worker", Image: "x", LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(1)}}}}}}},
		},
		Status: batchv1.JobStatus{
			Active: 3, Ready: pointer(int32(2)), Succeeded: 5, Failed: 1, StartTime: pointer(later(1)), CompletionTime: pointer(later(99)), CompletedIndexes: "0-3,7",
			Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "Job has reached the specified backoff limit", LastProbeTime: later(50), LastTransitionTime: later(51)}},
		},
	}
}
