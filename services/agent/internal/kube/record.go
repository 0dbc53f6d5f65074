// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/reconcile"
)

// Namespace is where the agent keeps its inventories.
const Namespace = "leat-system"

const (
	inventoryLabel = "leat.dev/inventory"
	// People set this annotation on a head; the agent never does, and the record's end takes it away.
	removeAnnotation, removeConfirmed = "leat.dev/remove", "confirmed"
	// A service's name is a DNS label, so the dot keeps the two kinds of names apart.
	headPrefix  = "leat-inventory."
	shardPrefix = "leat-inventory-shard."
	// maxShard leaves room below the 1 MiB that a ConfigMap may have.
	maxShard = 700 << 10
)

// The keys of a ConfigMap that holds an inventory. The first shard stands in the head itself; further ones, which only very
// large services have, are in ConfigMaps of their own. Those are named by their content and written before the head that
// names them, so the head's single write is what makes a new record visible.
const (
	keyHead    = "head"
	keyObjects = "objects"
	keyShards  = "shards"
)

// shardNames remembers which extra shards each service has, to delete those that a new record does not name.
type shardNames struct {
	mu        sync.Mutex
	byService map[string][]string
}

func (s *shardNames) replace(service string, names []string) (before []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byService == nil {
		s.byService = map[string][]string{}
	}
	before, s.byService[service] = s.byService[service], names
	return before
}

// Inventories keeps records in ConfigMaps. It is safe for concurrent use, each service by one caller at a time.
type Inventories struct {
	client *Client
	shards shardNames
}

var _ reconcile.Inventories = (*Inventories)(nil)

// Inventories returns the store of records in this cluster.
func (c *Client) Inventories() *Inventories {
	return &Inventories{client: c}
}

func (i *Inventories) configMaps() dynamic.ResourceInterface {
	return i.client.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(Namespace)
}

// List implements reconcile.Inventories.
func (i *Inventories) List(ctx context.Context) (records []inventory.Record, err error) {
	var list *unstructured.UnstructuredList
	err = i.client.try(ctx, "ConfigMap", func(ctx context.Context) error {
		list, err = i.configMaps().List(ctx, metav1.ListOptions{LabelSelector: inventoryLabel})
		return err
	})
	if err != nil {
		return nil, err
	}
	byName, confirmed := map[string]map[string]string{}, map[string]bool{}
	for _, item := range list.Items {
		byName[item.GetName()], _, _ = unstructured.NestedStringMap(item.Object, "data")
		confirmed[item.GetName()] = item.GetAnnotations()[removeAnnotation] == removeConfirmed
	}
	for name, data := range byName {
		if !strings.HasPrefix(name, headPrefix) {
			continue
		}
		record, err := i.assemble(data, byName)
		if err != nil {
			return nil, fmt.Errorf("read inventory from ConfigMap %s/%s: %w", Namespace, name, err)
		}
		record.Confirmed = confirmed[name]
		records = append(records, record)
	}
	return records, nil
}

func (i *Inventories) assemble(head map[string]string, all map[string]map[string]string) (inventory.Record, error) {
	shards, names := [][]byte{[]byte(head[keyObjects])}, strings.Fields(head[keyShards])
	for _, name := range names {
		shards = append(shards, []byte(all[name][keyObjects]))
	}
	record, err := inventory.Decode([]byte(head[keyHead]), shards)
	if err != nil {
		return inventory.Record{}, err
	}
	i.shards.replace(record.Service, names)
	return record, nil
}

// Save implements reconcile.Inventories.
func (i *Inventories) Save(ctx context.Context, record inventory.Record) error {
	head, shards, err := record.Encode(maxShard)
	if err != nil {
		return err
	}
	var names []string
	for _, shard := range shards[1:] {
		sum := sha256.Sum256(shard)
		name := shardPrefix + record.Service + "." + hex.EncodeToString(sum[:8])
		if err := i.write(ctx, record.Service, name, map[string]string{keyObjects: string(shard)}); err != nil {
			return err
		}
		names = append(names, name)
	}
	data := map[string]string{keyHead: string(head), keyObjects: string(shards[0]), keyShards: strings.Join(names, " ")}
	if err := i.write(ctx, record.Service, headPrefix+record.Service, data); err != nil {
		return err
	}
	return i.sweep(ctx, i.shards.replace(record.Service, names), names)
}

// sweep deletes shards that nothing names any more.
func (i *Inventories) sweep(ctx context.Context, before, now []string) error {
	keep := strings.Join(now, " ") + " "
	for _, name := range before {
		if strings.Contains(keep, name+" ") {
			continue
		}
		if err := i.erase(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// Delete implements reconcile.Inventories. The head goes first: a shard without one is never read.
func (i *Inventories) Delete(ctx context.Context, service string) error {
	if err := i.erase(ctx, headPrefix+service); err != nil {
		return err
	}
	return i.sweep(ctx, i.shards.replace(service, nil), nil)
}

func (i *Inventories) erase(ctx context.Context, name string) error {
	err := i.client.try(ctx, "ConfigMap", func(ctx context.Context) error {
		return i.configMaps().Delete(ctx, name, metav1.DeleteOptions{})
	})
	if errors.Is(err, reconcile.ErrNotFound) {
		return nil
	}
	return err
}

// write stores one ConfigMap, and makes the namespace when it is missing.
func (i *Inventories) write(ctx context.Context, service, name string, data map[string]string) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": data,
		"metadata": map[string]any{"name": name, "namespace": Namespace, "labels": map[string]string{inventoryLabel: service}},
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
		if err := i.client.EnsureNamespace(ctx, Namespace); err != nil {
			return err
		}
		return patch()
	})
}
