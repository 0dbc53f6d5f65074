// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/clusterref"
	"github.com/leatdev/leat/internal/contract/configref"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/confine"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// Configuration is a service's configuration as the hub sends it.
type Configuration struct {
	render.Variables
	// References are texts of references into the service's own cluster, by key; see
	// [clusterref.Parse].
	References map[string]string
	// Restart has a change of the configuration roll the service's pods.
	Restart bool
}

// follow puts what the references of a configuration lead to among its variables: see package
// configref. A value from before that stays in use becomes a notice. Where a value is lacking the
// render fails (ConfigMissing), and the applied state stays.
func follow(
	ctx context.Context, readers Readers, s plan.Service, c *Configuration, given *given, all *Manifests,
) error {
	if len(c.References) == 0 {
		return nil
	}
	all.AsksFacts = true // a change that no watch shows is found at the next refresh
	groups := map[clusterref.Object]map[string]configref.Reference{}
	for key, text := range c.References {
		reference, err := clusterref.Parse(text)
		if err != nil {
			return reason.Errorf(reason.ConfigMissing, "%s: %v", key, err)
		}
		if groups[reference.Object] == nil {
			groups[reference.Object] = map[string]configref.Reference{}
		}
		groups[reference.Object][key] = configref.Reference{Text: text, Field: reference.Key, IsOptional: reference.IsOptional}
	}
	if len(groups) > clusterref.MaxObjects {
		return reason.Errorf(reason.ConfigMissing, "the references name %d objects of the cluster; at most %d are allowed", len(groups), clusterref.MaxObjects)
	}
	reader, err := readers.Reader(s)
	if err != nil {
		return err
	}
	next := map[string]GivenValue{}
	for _, object := range slices.SortedFunc(maps.Keys(groups), func(a, b clusterref.Object) int { return strings.Compare(a.String(), b.String()) }) {
		source, err := sourceOf(ctx, reader, object, all)
		if err != nil {
			return err
		}
		out := configref.Resolve(groups[object], source, given.before(ctx).References)
		if len(out.Lacking) > 0 {
			key := out.Lacking[0]
			return reason.Errorf(out.Why.Reason, "%s: %s: %s", key, c.References[key], out.Why.Text)
		}
		if len(out.Kept) > 0 && all.Notice == nil {
			key := out.Kept[0]
			all.Notice = reason.Errorf(out.Why.Reason, "%s: %s: %s; the value from before stays in use", key, c.References[key], out.Why.Text)
		}
		maps.Copy(next, out.Values)
	}
	c.Values, c.Secrets = clone(c.Values), clone(c.Secrets)
	for key, value := range next {
		if value.IsPublic {
			c.Values[key] = value.Text
		} else {
			c.Secrets[key] = value.Text
		}
	}
	size := 0
	for _, texts := range []map[string]string{c.Values, c.Secrets} {
		for key, text := range texts {
			size += len(key) + len(text)
		}
	}
	if size > configref.MaxBytes {
		return reason.Errorf(reason.ConfigMissing, "the values of the configuration have %d bytes together with what its references lead to; at most %d are allowed",
			size, configref.MaxBytes)
	}
	given.setReferences(next)
	return nil
}

func clone(texts map[string]string) map[string]string {
	all := make(map[string]string, len(texts))
	maps.Copy(all, texts)
	return all
}

// sourceOf returns an object as references lead into it.
func sourceOf(ctx context.Context, reader *confine.Reader, object clusterref.Object, all *Manifests) (source configref.Source[string], err error) {
	missing := func(format string, args ...any) *configref.Refusal {
		return &configref.Refusal{Reason: reason.ConfigMissing, Text: fmt.Sprintf(format, args...)}
	}
	ref := inventory.Ref{Key: inventory.Key{Kind: object.Kind, Namespace: object.Namespace, Name: object.Name}, Version: "v1"}
	live, err := reader.Get(ctx, ref)
	all.Reads.add(reader, ref, live, err)
	switch {
	case errors.Is(err, k8s.ErrNotFound):
		source.Refusal = missing("%s does not exist; create it, or correct the reference", object)
		source.Refusal.IsAbsent = true
		return source, nil
	case isDenied(err):
		source.Refusal = missing("%s may not be read: %s", object, reason.ProblemOf(err).Message)
		return source, nil
	case err != nil:
		return source, err
	}
	data, ok := dataOf(live)
	if !ok {
		source.Refusal = missing("%s: its data cannot be read", object)
		return source, nil
	}
	source.IsPublic = object.Kind == clusterref.ConfigMap
	source.Value = func(_ string, reference configref.Reference) (string, *configref.Refusal) {
		text, ok := configref.Field(data, reference.Field)
		if !ok {
			why := missing("%s has no key %q with a text; add it, or correct the reference", object, reference.Field)
			why.IsAbsent, why.IsOfField = true, true
			return "", why
		}
		if len(text) > configref.MaxValueBytes {
			return "", missing("the value has %d bytes; at most %d are allowed", len(text), configref.MaxValueBytes)
		}
		return text, nil
	}
	return source, nil
}
