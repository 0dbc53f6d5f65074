// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
)

const (
	inventoryLabel = "leat.dev/inventory"
	// People set this annotation on a head. The agent never does, and deletes it with the record.
	removeAnnotation, removeConfirmed = "leat.dev/remove", "confirmed"
	// Both continue with the service's name in plans, NAME or PROJECT.NAME, which has no more than one
	// dot. The dot at the end keeps the two kinds apart.
	headPrefix  = "leat-inventory."
	shardPrefix = "leat-inventory-shard."
)

// The keys of a ConfigMap that holds an inventory. A single shard is in the head itself. Several
// shards, which only large services have, are in ConfigMaps of their own. Their names are sums of
// their content, and they are written before the head that names them. So the single write of the
// head makes a new record visible, and unchanged shards are not written again.
const (
	keyHead    = "head"
	keyObjects = "objects"
	keyShards  = "shards"
)

// Inventories stores records in ConfigMaps. It is safe for concurrent use, with one caller at a
// time for each service.
type Inventories struct {
	client *Client

	// shards maps each service to the names of its shards in the cluster, of type []string. Save does
	// not write these again, and deletes shards that a new record does not name. Listed means that a
	// list has filled the map.
	shards sync.Map
	listed atomic.Bool
}

var _ inventory.Store = (*Inventories)(nil)

// Inventories returns the store of records in this cluster.
func (c *Client) Inventories() *Inventories {
	return &Inventories{client: c}
}

func (i *Inventories) configMaps() dynamic.ResourceInterface {
	return i.client.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(i.client.namespace)
}

// List implements reconcile.Inventories. The first call also deletes shards that no head names: an
// agent that ended between two requests leaves them behind.
func (i *Inventories) List(ctx context.Context) (records []inventory.Record, err error) {
	list, err := request(ctx, i.client, "ConfigMap", func(ctx context.Context) (*unstructured.UnstructuredList, error) {
		return i.configMaps().List(ctx, metav1.ListOptions{LabelSelector: inventoryLabel})
	})
	if err != nil {
		return nil, err
	}
	found := stored{data: map[string]map[string]string{}, shards: map[string][]string{}, confirmed: map[string]bool{}}
	for _, item := range list.Items {
		found.add(&item)
	}
	for name, data := range found.data {
		if !strings.HasPrefix(name, headPrefix) {
			continue
		}
		record, err := found.assemble(data)
		if err != nil {
			return nil, fmt.Errorf("read inventory from ConfigMap %s/%s: %w", i.client.namespace, name, err)
		}
		record.Confirmed = found.confirmed[name]
		records = append(records, record)
	}
	return records, i.settle(ctx, found)
}

// settle records the existing shards once, and deletes shards that no head names.
func (i *Inventories) settle(ctx context.Context, found stored) error {
	if i.listed.Load() {
		return nil // shards is newer than this list, which may precede the latest Save
	}
	for service, names := range found.shards {
		named := strings.Fields(found.data[headPrefix+service][keyShards])
		if err := i.sweep(ctx, names, named); err != nil {
			return err
		}
		i.shards.Store(service, named)
	}
	i.listed.Store(true)
	return nil
}

// stored is the content of the cluster for all inventories.
type stored struct {
	data      map[string]map[string]string // by the ConfigMap's name
	shards    map[string][]string          // names by service
	confirmed map[string]bool              // heads by name
}

func (s *stored) add(item *unstructured.Unstructured) {
	name := item.GetName()
	s.data[name], _, _ = unstructured.NestedStringMap(item.Object, "data")
	s.confirmed[name] = item.GetAnnotations()[removeAnnotation] == removeConfirmed
	if place, isShard := strings.CutPrefix(name, shardPrefix); isShard {
		service := place[:max(strings.LastIndexByte(place, '.'), 0)]
		s.shards[service] = append(s.shards[service], name)
	}
}

func (s *stored) assemble(head map[string]string) (inventory.Record, error) {
	shards := [][]byte{[]byte(head[keyObjects])}
	for _, name := range strings.Fields(head[keyShards]) {
		shards = append(shards, []byte(s.data[name][keyObjects]))
	}
	return inventory.Decode([]byte(head[keyHead]), shards)
}

// Save implements reconcile.Inventories.
func (i *Inventories) Save(ctx context.Context, record inventory.Record) error {
	head, shards, err := record.Encode()
	if err != nil {
		return err
	}
	data, names := map[string]string{keyHead: string(head)}, []string(nil)
	if len(shards) == 1 {
		data[keyObjects] = string(shards[0])
	} else if names, err = i.writeShards(ctx, record.Service, shards); err != nil {
		return err
	}
	data[keyShards] = strings.Join(names, " ")
	if err := i.write(ctx, record.Service, headPrefix+record.Service, data); err != nil {
		return err
	}
	return i.forsake(ctx, record.Service, names)
}

// writeShards stores the shards that do not exist yet, and returns the names of all.
func (i *Inventories) writeShards(ctx context.Context, service string, shards [][]byte) (names []string, err error) {
	known := i.shardsOf(service)
	for _, shard := range shards {
		sum := sha256.Sum256(shard)
		name := shardPrefix + service + "." + hex.EncodeToString(sum[:8])
		if names = append(names, name); slices.Contains(known, name) {
			continue
		}
		if err := i.write(ctx, service, name, map[string]string{keyObjects: string(shard)}); err != nil {
			return nil, err
		}
		known = append(known, name)
		i.shards.Store(service, known) // if this Save fails, the next one deletes it
	}
	return names, nil
}

// forsake deletes the shards of a service that are not in now.
func (i *Inventories) forsake(ctx context.Context, service string, now []string) error {
	if err := i.sweep(ctx, i.shardsOf(service), now); err != nil {
		return err
	}
	i.shards.Store(service, now)
	return nil
}

func (i *Inventories) shardsOf(service string) []string {
	names, _ := i.shards.Load(service)
	known, _ := names.([]string)
	return known
}

// sweep deletes shards that no head names any more.
func (i *Inventories) sweep(ctx context.Context, before, now []string) error {
	for _, name := range before {
		if slices.Contains(now, name) {
			continue
		}
		if err := i.erase(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// Delete implements reconcile.Inventories. It deletes the head first: shards without a head are
// never read.
func (i *Inventories) Delete(ctx context.Context, service string) error {
	if err := i.erase(ctx, headPrefix+service); err != nil {
		return err
	}
	return i.forsake(ctx, service, nil)
}

func (i *Inventories) erase(ctx context.Context, name string) error {
	err := i.client.try(ctx, "ConfigMap", func(ctx context.Context) error {
		return i.configMaps().Delete(ctx, name, metav1.DeleteOptions{})
	})
	return k8s.IgnoreNotFound(err)
}

// write stores one ConfigMap, and creates the namespace if it is missing.
func (i *Inventories) write(ctx context.Context, service, name string, data map[string]string) error {
	project, own := objectname.Split(service)
	labels := map[string]string{inventoryLabel: own}
	if project != objectname.Default {
		labels[k8s.ProjectLabel] = project
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": data,
		"metadata": map[string]any{"name": name, "namespace": i.client.namespace, "labels": labels},
	})
	if err != nil {
		return fmt.Errorf("encode ConfigMap: %w", err)
	}
	force := true
	return i.client.try(ctx, "ConfigMap", func(ctx context.Context) error {
		patch := func() error {
			_, err := i.configMaps().Patch(ctx, name, types.ApplyPatchType, body,
				metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
			return err
		}
		err := patch()
		if !apierrors.IsNotFound(err) {
			return err
		}
		if err := i.client.EnsureNamespace(ctx, i.client.namespace); err != nil {
			return err
		}
		return patch()
	})
}
