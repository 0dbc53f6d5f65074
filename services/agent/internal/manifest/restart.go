// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// ConfigAnnotation is the annotation of pod templates that changes with the configuration.
const ConfigAnnotation = "leat.dev/config"

// rolling are the kinds whose controllers replace pods when spec.template changes. Jobs are not
// among them: their template cannot be changed.
var rolling = map[schema.GroupKind]bool{
	{Group: "apps", Kind: "Deployment"}: true, {Group: "apps", Kind: "StatefulSet"}: true, {Group: "apps", Kind: "DaemonSet"}: true,
	{Group: "argoproj.io", Kind: "Rollout"}:     true,
	{Group: "apps.kruise.io", Kind: "CloneSet"}: true, {Group: "apps.kruise.io", Kind: "StatefulSet"}: true,
	{Group: "apps.kruise.io", Kind: "DaemonSet"}: true,
}

// stampPods sets the annotation of all workloads to a digest of the configuration. The digest is
// keyed by a random text that the cluster keeps for the service: who sees pods cannot try values,
// and neither a restart of the agent, nor another agent, nor another hub changes it.
func stampPods(
	ctx context.Context, generated *Generated, s plan.Service, v render.Variables, isTrial bool, all *Manifests,
) error {
	var workloads []*unstructured.Unstructured
	for _, o := range all.Objects {
		if rolling[o.GroupVersionKind().GroupKind()] {
			workloads = append(workloads, o)
		}
	}
	if len(workloads) == 0 {
		return nil
	}
	salt, err := generated.of(s.Name).saltOf(ctx, generated.store, s.Name, isTrial)
	if err != nil {
		return fmt.Errorf("load the key of the configuration's digest: %w", err)
	}
	all.HasGenerated = true
	sum := digestOf(salt, v)
	for _, o := range workloads {
		if err := unstructured.SetNestedField(o.Object, sum, "spec", "template", "metadata", "annotations", ConfigAnnotation); err != nil {
			return &render.Error{Path: all.Origins[o], Cause: fmt.Errorf("%s %s: set annotation %s: %w", o.GetKind(), o.GetName(), ConfigAnnotation, err)}
		}
	}
	return nil
}

// digestOf returns a keyed digest of variables. Different ones never read alike.
func digestOf(salt string, v render.Variables) string {
	h := hmac.New(sha256.New, []byte(salt))
	for _, texts := range []map[string]string{v.Values, v.Secrets} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(texts))))
		for _, key := range slices.Sorted(maps.Keys(texts)) {
			for _, text := range []string{key, texts[key]} {
				h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
				h.Write([]byte(text))
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
