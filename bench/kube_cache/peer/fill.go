package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	_ = corev1.AddToScheme(s)
	_ = batchv1.AddToScheme(s)
	return s
}()

// encode gives the bytes that the API server stores and serves: the envelope and the object in it.
func encode(object runtime.Object, version schema.GroupVersion) ([]byte, error) {
	kinds, _, err := scheme.ObjectKinds(object)
	if err != nil {
		return nil, err
	}
	object.GetObjectKind().SetGroupVersionKind(version.WithKind(kinds[0].Kind)) // typed objects leave it empty
	return runtime.Encode(protobuf.NewSerializer(scheme, scheme), object)
}

// fill puts the objects where the API server will find them. Straight into etcd: through the API server the same would
// take minutes of CPU and measure nothing.
func fill(args []string) error {
	flags := flag.NewFlagSet("fill", flag.ExitOnError)
	etcd := flags.String("etcd", "", "address of etcd")
	nodes := flags.Int("nodes", 5000, "nodes")
	pods := flags.Int("pods", 50000, "pods")
	if err := flags.Parse(args); err != nil {
		return err
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{*etcd}, DialTimeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer client.Close()

	type item struct{ key, value string }
	items := make(chan item, 1000)
	failures := make(chan error, 16)
	var writers sync.WaitGroup
	for range 8 {
		writers.Add(1)
		go func() {
			defer writers.Done()
			var batch []clientv3.Op
			for open := true; open; {
				var next item
				if next, open = <-items; open {
					batch = append(batch, clientv3.OpPut(next.key, next.value))
				}
				if len(batch) < 100 && open || len(batch) == 0 {
					continue
				}
				if _, err := client.Txn(context.Background()).Then(batch...).Commit(); err != nil {
					failures <- err
					for range items { // so that the producer ends
					}
					return
				}
				batch = nil
			}
		}()
	}
	put := func(key string, object runtime.Object) error {
		value, err := encode(object, corev1.SchemeGroupVersion)
		items <- item{key, string(value)}
		return err
	}
	// Writes to a pod are refused where its namespace is missing.
	for i := range teams {
		name := fmt.Sprintf("team-%02d", i)
		namespace := &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid(7, i), CreationTimestamp: created, Labels: map[string]string{"kubernetes.io/metadata.name": name}},
			Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
			Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
		}
		if err := put("/registry/namespaces/"+name, namespace); err != nil {
			return err
		}
	}
	jsonBytes := 0
	for i := range *nodes {
		node := gpuNode(i)
		if err := put("/registry/minions/"+node.Name, node); err != nil {
			return err
		}
	}
	for i := range *pods {
		pod := worker(i, *nodes)
		if i == 0 {
			text, _ := json.Marshal(pod)
			jsonBytes = len(text)
		}
		if err := put("/registry/pods/"+pod.Namespace+"/"+pod.Name, pod); err != nil {
			return err
		}
	}
	close(items)
	writers.Wait()
	select {
	case err := <-failures:
		return err
	default:
	}
	fmt.Printf("filled %d nodes and %d pods of %d bytes of JSON\n", *nodes, *pods, jsonBytes)
	return nil
}

// fixtures writes each object in both encodings for tests/kube/views_test.cc.
func fixtures(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("needs a folder")
	}
	objects := map[string]struct {
		object  runtime.Object
		version schema.GroupVersion
	}{
		"pod_running": {worker(1234, 100), corev1.SchemeGroupVersion}, "pod_failed": {failedPod(), corev1.SchemeGroupVersion},
		"pod_empty": {&corev1.Pod{}, corev1.SchemeGroupVersion}, "node": {gpuNode(7), corev1.SchemeGroupVersion},
		"event": {event(), corev1.SchemeGroupVersion}, "job": {job(), batchv1.SchemeGroupVersion},
	}
	for name, entry := range objects {
		binary, err := encode(entry.object, entry.version)
		if err != nil {
			return err
		}
		text, err := json.Marshal(entry.object)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(args[0], name+".pb"), binary, 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(args[0], name+".json"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
