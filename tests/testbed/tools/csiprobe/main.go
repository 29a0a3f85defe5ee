// Command csiprobe is a small CSI node plugin for inline ephemeral volumes. It proves that a test bed carries the paths that
// Paceline's agent takes: registration with kubelet, mounts that propagate from a pod to the node and into other pods, FUSE
// inside a pod, and a FUSE mount that comes back in a running pod after the plugin was killed.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const driver = "probe.testbed.paceline.dev"

type plugin struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
}

func (*plugin) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: driver, VendorVersion: "1"}, nil
}

func (*plugin) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

func (*plugin) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (*plugin) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: os.Getenv("NODE")}, nil
}

func (*plugin) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

// NodePublishVolume is called again and again for a published volume (requiresRepublish), so each kind must be safe to repeat.
func (*plugin) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	log.Printf("publish %s readonly=%v context=%v", r.TargetPath, r.Readonly, r.VolumeContext)
	if err := os.MkdirAll(r.TargetPath, 0o755); err != nil {
		return nil, err
	}
	var err error
	switch kind := r.VolumeContext["kind"]; kind {
	case "fuse":
		err = publishFuse(r.TargetPath)
	case "tmpfs":
		err = publishTmpfs(r.TargetPath, r.VolumeContext)
	default:
		err = fmt.Errorf("unknown kind %q", kind)
	}
	return &csi.NodePublishVolumeResponse{}, err
}

func (*plugin) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	log.Printf("unpublish %s", r.TargetPath)
	_ = syscall.Unmount(filepath.Join(r.TargetPath, "d"), syscall.MNT_DETACH) // only there for kind fuse
	if err := syscall.Unmount(r.TargetPath, 0); err != nil && err != syscall.EINVAL && err != syscall.ENOENT {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, os.RemoveAll(r.TargetPath)
}

func isMounted(path string) bool {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	return strings.Contains(string(mounts), " "+path+" ")
}

func publishTmpfs(target string, attributes map[string]string) error {
	if isMounted(target) {
		return nil
	}
	if err := syscall.Mount("probe", target, "tmpfs", 0, "mode=755,size=1m"); err != nil {
		return fmt.Errorf("mount %s: %w", target, err)
	}
	var text strings.Builder
	for key, value := range attributes {
		fmt.Fprintf(&text, "%s=%s\n", key, value)
	}
	return os.WriteFile(filepath.Join(target, "info.txt"), []byte(text.String()), 0o644)
}

// publishFuse mounts a tmpfs on the target and the FUSE file system on its subdirectory "d". A container holds a bind of the
// target itself, so only a mount below it can be replaced under a running container (with HostToContainer propagation).
func publishFuse(target string) error {
	if !isMounted(target) {
		if err := syscall.Mount("probe", target, "tmpfs", 0, "mode=755,size=64k"); err != nil {
			return fmt.Errorf("mount %s: %w", target, err)
		}
	}
	directory := filepath.Join(target, "d")
	if _, err := os.Stat(filepath.Join(directory, "hello")); err == nil {
		return nil
	}
	if isMounted(directory) {
		log.Printf("stale mount on %s: mounting anew", directory)
		_ = syscall.Unmount(directory, syscall.MNT_DETACH)
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	_, err := fs.Mount(directory, &root{}, &fs.Options{MountOptions: fuse.MountOptions{
		DirectMountStrict: true, AllowOther: true, Options: []string{"ro"}, FsName: "probe", Name: "probe"}})
	return err
}

type root struct{ fs.Inode }

func (r *root) OnAdd(ctx context.Context) {
	file := &fs.MemRegularFile{Data: []byte("hello from fuse\n"), Attr: fuse.Attr{Mode: 0o444}}
	r.AddChild("hello", r.NewPersistentInode(ctx, file, fs.StableAttr{}), false)
}

type registrar struct {
	registration.UnimplementedRegistrationServer
}

func (registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: driver, Endpoint: pluginSocket, SupportedVersions: []string{"1.0.0"}}, nil
}

func (registrar) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	log.Printf("registered=%v %s", s.PluginRegistered, s.Error)
	return &registration.RegistrationStatusResponse{}, nil
}

const (
	pluginSocket       = "/var/lib/kubelet/plugins/" + driver + "/csi.sock"
	registrationSocket = "/var/lib/kubelet/plugins_registry/" + driver + "-reg.sock"
)

func listen(path string) net.Listener {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		log.Fatal(err)
	}
	_ = os.Remove(path) // of an earlier run
	listener, err := net.Listen("unix", path)
	if err != nil {
		log.Fatal(err)
	}
	return listener
}

func main() {
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, &plugin{})
	csi.RegisterNodeServer(server, &plugin{})
	go func() { log.Fatal(server.Serve(listen(pluginSocket))) }()
	announce := grpc.NewServer()
	registration.RegisterRegistrationServer(announce, registrar{})
	log.Fatal(announce.Serve(listen(registrationSocket)))
}
