// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/runtime/localkube/keys"
)

// Snapshot is the content of a cluster at one moment: everything in etcd, except the records by
// which API servers announce their own presence.
type Snapshot map[string][]byte

// registry is where the API server keeps everything, and registryEnd the first key behind it.
const (
	registry    = "/registry/"
	registryEnd = "/registry0"
)

// The starts of the keys of those objects that the API server must forget before Restore returns.
const (
	namespaces  = registry + "namespaces/"
	definitions = registry + "apiextensions.k8s.io/customresourcedefinitions/"
)

// ownObjects are the keys of what an API server creates soon after its start, and not always before
// it reports that it is ready.
func ownObjects() []string {
	return []string{
		registry + "configmaps/kube-system/extension-apiserver-authentication",
		registry + "configmaps/kube-system/kube-apiserver-legacy-service-account-token-tracking",
		registry + "ipaddresses/" + keys.ServiceIP,
		registry + "servicecidrs/kubernetes",
		registry + "services/specs/default/kubernetes",
		namespaces + "default", namespaces + "kube-node-lease", namespaces + "kube-public", namespaces + "kube-system",
	}
}

// presence are the starts of the keys that belong to a running API server and change all the time.
func presence() []string {
	return []string{registry + "leases/kube-system/apiserver-", registry + "peerserverleases/"}
}

// lasting are the starts of the keys of admission policies and webhooks. The API server applies
// them for a second or so after they are deleted, and does not show when it has stopped.
func lasting() []string {
	return []string{
		registry + "validatingadmissionpolic", registry + "mutatingadmissionpolic",
		registry + "validatingwebhookconfigurations/", registry + "mutatingwebhookconfigurations/",
	}
}

// TakeSnapshot returns what the cluster holds, as soon as the API server has created its own
// objects. It is for control planes with Params.APIServerOnly, because controllers never cease to
// write.
func TakeSnapshot(ctx context.Context, cp *ControlPlane) (Snapshot, error) {
	etcd, end, err := cp.etcdClient()
	if err != nil {
		return nil, fmt.Errorf("take snapshot: %w", err)
	}
	defer end()
	var s Snapshot
	err = cp.waitFor(ctx, "the API server's own objects", func(ctx context.Context) error {
		if s, err = read(ctx, etcd); err != nil {
			return err
		}
		for _, key := range ownObjects() {
			if s[key] == nil {
				return fmt.Errorf("%s is missing", key)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("take snapshot: %w", err)
	}
	return s, nil
}

// Restore makes the cluster hold again what it held at the snapshot. It returns when the API server
// admits nothing to namespaces that were deleted, and serves no deleted kinds; rights that roles
// granted end some milliseconds later. Finalizers keep no object. There must be no other writer
// meanwhile.
//
// Restore fails if there are admission policies or webhooks that the snapshot has not. The caller
// ends such a control plane.
func (s Snapshot) Restore(ctx context.Context, cp *ControlPlane) error {
	etcd, end, err := cp.etcdClient()
	if err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	defer end()
	now, err := read(ctx, etcd)
	if err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	deleted := now.without(s)
	if slices.ContainsFunc(deleted, func(key string) bool { return hasAnyPrefix(key, lasting()) }) {
		return errors.New("restore snapshot: there are admission policies or webhooks")
	}
	// The API server deletes what it derives from objects, such as the APIService of a
	// CustomResourceDefinition, and may write it once more before it does.
	err = cp.waitFor(ctx, "the API server to follow", func(ctx context.Context) error {
		if err := s.write(ctx, etcd, now); err != nil {
			return err
		}
		if err := followed(ctx, cp.client, deleted); err != nil {
			return err
		}
		if now, err = read(ctx, etcd); err != nil {
			return err
		}
		if !maps.EqualFunc(now, s, bytes.Equal) {
			return errors.New("somebody is still writing")
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	return nil
}

// without returns the keys of s that other does not have.
func (s Snapshot) without(other Snapshot) (keys []string) {
	for key := range s {
		if other[key] == nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// followed returns nil once the API server no longer knows the deleted namespaces and kinds.
func followed(ctx context.Context, server *client, deleted []string) error {
	for _, key := range deleted {
		if name, ok := strings.CutPrefix(key, namespaces); ok {
			if err := server.refusesObjectsIn(ctx, name); err != nil {
				return err
			}
		}
		if name, ok := strings.CutPrefix(key, definitions); ok {
			_, group, _ := strings.Cut(name, ".")
			if err := server.doesNotServe(ctx, group); err != nil {
				return err
			}
		}
	}
	return nil
}

// refusesObjectsIn returns nil if the API server admits no objects to a namespace that is deleted.
func (c *client) refusesObjectsIn(ctx context.Context, namespace string) error {
	object := object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "late"}}
	err := c.do(ctx, http.MethodPost, "/api/v1/namespaces/"+namespace+"/configmaps?dryRun=All", object, nil)
	if status := (*statusError)(nil); errors.As(err, &status) && status.code == http.StatusNotFound {
		return nil
	}
	return errors.Join(fmt.Errorf("namespace %s takes objects", namespace), err)
}

// doesNotServe returns nil if a group is neither served nor discovered.
func (c *client) doesNotServe(ctx context.Context, group string) error {
	err := c.do(ctx, http.MethodGet, "/apis/"+group, nil, nil)
	if status := (*statusError)(nil); !errors.As(err, &status) || status.code != http.StatusNotFound {
		return errors.Join(fmt.Errorf("group %s is served", group), err)
	}
	for _, accept := range []string{"application/json", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"} {
		found, err := c.send(ctx, http.MethodGet, "/apis", http.Header{"Accept": {accept}}, nil)
		if err != nil {
			return err
		}
		if bytes.Contains(found, fmt.Appendf(nil, "%q", group)) {
			return fmt.Errorf("group %s is discovered", group)
		}
	}
	return nil
}

// The operations of an etcd transaction.
type (
	etcdOperation struct {
		Put    *etcdPut    `json:"requestPut,omitempty"`
		Delete *etcdDelete `json:"requestDeleteRange,omitempty"`
	}
	etcdPut struct {
		Key   []byte `json:"key"`
		Value []byte `json:"value"`
	}
	etcdDelete struct {
		Key []byte `json:"key"`
	}
)

// read returns what etcd holds now.
func read(ctx context.Context, etcd *client) (Snapshot, error) {
	var found struct{ Kvs []etcdPut }
	everything := map[string]any{"key": []byte(registry), "range_end": []byte(registryEnd)}
	if err := etcd.do(ctx, http.MethodPost, "/v3/kv/range", everything, &found); err != nil {
		return nil, fmt.Errorf("read etcd: %w", err)
	}
	s := make(Snapshot, len(found.Kvs))
	for _, kv := range found.Kvs {
		if !hasAnyPrefix(string(kv.Key), presence()) {
			s[string(kv.Key)] = kv.Value
		}
	}
	return s, nil
}

// write changes in etcd what now has and s has not, and the reverse.
func (s Snapshot) write(ctx context.Context, etcd *client, now Snapshot) error {
	var operations []etcdOperation
	for _, key := range now.without(s) {
		operations = append(operations, etcdOperation{Delete: &etcdDelete{Key: []byte(key)}})
	}
	for key, value := range s {
		if !bytes.Equal(value, now[key]) {
			operations = append(operations, etcdOperation{Put: &etcdPut{Key: []byte(key), Value: value}})
		}
	}
	const most = 100 // etcd takes 128 at once
	for chunk := range slices.Chunk(operations, most) {
		if err := etcd.do(ctx, http.MethodPost, "/v3/kv/txn", map[string]any{"success": chunk}, nil); err != nil {
			return fmt.Errorf("write etcd: %w", err)
		}
	}
	return nil
}

func hasAnyPrefix(s string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(s, prefix) })
}
