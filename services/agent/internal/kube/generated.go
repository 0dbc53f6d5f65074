// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/manifest"
)

const (
	// generatedPrefix and a digit name the Secrets that hold what templates have generated. Their
	// names are fixed, so that RBAC can permit these and no other Secret.
	generatedPrefix = "leat-generated-"
	generatedShards = 16
	// maxGenerated bounds the unpacked data of one service.
	maxGenerated = 8 << 20
)

// Generated keeps the values that templates have generated, in Secrets of the agent's own
// namespace: a service has one key in one of them. A field manager of its own for each service lets
// services be written without reading the others. It is safe for concurrent use.
type Generated struct{ client *Client }

var _ manifest.GeneratedStore = Generated{}

// Generated returns the store in this cluster.
func (c *Client) Generated() Generated { return Generated{client: c} }

func (g Generated) secrets() dynamic.ResourceInterface {
	return g.client.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(g.client.namespace)
}

func generatedName(service string) string {
	sum := fnv.New32a()
	_, _ = io.WriteString(sum, service) // a hash never fails
	return fmt.Sprintf("%s%x", generatedPrefix, sum.Sum32()%generatedShards)
}

// maxManager is the longest name that the API server takes for a field manager.
const maxManager = 128

// generatedManager returns the field manager of a service's key: its name as plans have it, or the sum of
// a name that is too long.
func generatedManager(service string) string {
	manager := "leat-generated." + service
	if len(manager) > maxManager {
		sum := sha256.Sum256([]byte(service))
		manager = "leat-generated." + hex.EncodeToString(sum[:])
	}
	return manager
}

// Load implements manifest.GeneratedStore.
func (g Generated) Load(ctx context.Context, service string) (render.Generated, error) {
	secret, err := request(ctx, g.client, secretKind, func(ctx context.Context) (*unstructured.Unstructured, error) {
		secret, err := g.secrets().Get(ctx, generatedName(service), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return secret, err
	})
	if err != nil || secret == nil {
		return nil, err
	}
	text, _, _ := unstructured.NestedString(secret.Object, "data", service)
	if text == "" {
		return nil, nil
	}
	values, err := decodeGenerated(text)
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s, key %s; delete the key to have passwords and certificates generated again: %w",
			g.client.namespace, generatedName(service), service, err)
	}
	return values, nil
}

func decodeGenerated(text string) (values render.Generated, err error) {
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(reader, maxGenerated))
	if err != nil {
		return nil, err
	}
	return values, json.Unmarshal(content, &values)
}

// Save implements manifest.GeneratedStore.
func (g Generated) Save(ctx context.Context, service string, values render.Generated) error {
	object := map[string]any{
		"apiVersion": "v1", "kind": secretKind,
		"metadata": map[string]any{"name": generatedName(service), "namespace": g.client.namespace},
	}
	if values != nil {
		text, err := encodeGenerated(values)
		if err != nil {
			return err
		}
		object["data"] = map[string]any{service: text}
		if err := g.client.EnsureNamespace(ctx, g.client.namespace); err != nil {
			return err
		}
	}
	_, err := request(ctx, g.client, secretKind, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return g.secrets().Apply(ctx, generatedName(service), &unstructured.Unstructured{Object: object},
			metav1.ApplyOptions{FieldManager: generatedManager(service), Force: true})
	})
	return err
}

func encodeGenerated(values render.Generated) (string, error) {
	content, err := json.Marshal(values)
	if err != nil {
		return "", fmt.Errorf("encode generated values: %w", err)
	}
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, err = writer.Write(content)
	if err := errors.Join(err, writer.Close()); err != nil {
		return "", fmt.Errorf("encode generated values: %w", err)
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}
