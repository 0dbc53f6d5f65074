// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/clusterref"
	"github.com/leatdev/leat/internal/reason"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/services/agent/internal/confine"
	"github.com/leatdev/leat/services/agent/internal/inventory"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

// Bounds of what references lead to: one value, and the whole configuration with them.
const (
	maxValue   = 64 << 10
	maxVariant = 512 << 10
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

// follow puts what the references of a configuration lead to among its variables.
//
// The references into one object succeed or fail together, as they do in the hub: a user name of
// yesterday does not go with the password of today. If one of them cannot be given, the service
// keeps what it had by exactly these references, and the problem becomes a notice. Without that the
// render fails (ConfigMissing), and the applied state stays.
func follow(
	ctx context.Context, readers Readers, s plan.Service, c *Configuration, given *given, all *Manifests,
) error {
	if len(c.References) == 0 {
		return nil
	}
	all.AsksFacts = true // a change that no watch shows is found at the next refresh
	groups := map[clusterref.Object]map[string]clusterref.Reference{}
	for key, text := range c.References {
		reference, err := clusterref.Parse(text)
		if err != nil {
			return reason.Errorf(reason.ConfigMissing, "%s: %v", key, err)
		}
		if groups[reference.Object] == nil {
			groups[reference.Object] = map[string]clusterref.Reference{}
		}
		groups[reference.Object][key] = reference
	}
	if len(groups) > clusterref.MaxObjects {
		return reason.Errorf(reason.ConfigMissing, "the references name %d objects of the cluster; at most %d are allowed", len(groups), clusterref.MaxObjects)
	}
	reader, err := readers.Reader(s)
	if err != nil {
		return err
	}
	c.Values, c.Secrets = clone(c.Values), clone(c.Secrets)
	next := map[string]GivenValue{}
	for _, object := range slices.SortedFunc(maps.Keys(groups), func(a, b clusterref.Object) int { return strings.Compare(a.String(), b.String()) }) {
		data, why, err := data(ctx, reader, object, all)
		if err != nil {
			return err
		}
		var fresh map[string]GivenValue
		if why == nil {
			fresh, why = take(c.References, groups[object], data, given.before(ctx).References)
		}
		if why != nil {
			if fresh, err = keep(given.before(ctx), c.References, groups[object], why, all); err != nil {
				return err
			}
		}
		maps.Copy(next, fresh)
	}
	size := 0
	for key, value := range next {
		if value.IsPublic {
			c.Values[key] = value.Text
		} else {
			c.Secrets[key] = value.Text
		}
	}
	for _, texts := range []map[string]string{c.Values, c.Secrets} {
		for key, text := range texts {
			size += len(key) + len(text)
		}
	}
	if size > maxVariant {
		return reason.Errorf(reason.ConfigMissing, "the values of the configuration have %d bytes together with what its references lead to; at most %d are allowed",
			size, maxVariant)
	}
	given.setReferences(next)
	return nil
}

func clone(texts map[string]string) map[string]string {
	all := make(map[string]string, len(texts))
	maps.Copy(all, texts)
	return all
}

// refusal is why the references into an object cannot be given.
type refusal struct {
	text     string
	isAbsent bool // a reference that lets its value be missing is satisfied
}

// data returns what an object holds, or why the service cannot be given it.
func data(ctx context.Context, reader *confine.Reader, object clusterref.Object, all *Manifests) (map[string]string, *refusal, error) {
	ref := inventory.Ref{Key: inventory.Key{Kind: object.Kind, Namespace: object.Namespace, Name: object.Name}, Version: "v1"}
	live, err := reader.Get(ctx, ref)
	all.Reads.add(reader, ref, live, err)
	switch {
	case errors.Is(err, k8s.ErrNotFound):
		return nil, &refusal{text: object.String() + " does not exist; create it, or correct the reference", isAbsent: true}, nil
	case isDenied(err):
		return nil, &refusal{text: fmt.Sprintf("%s may not be read: %s", object, reason.ProblemOf(err).Message)}, nil
	case err != nil:
		return nil, nil, err
	}
	data, ok := dataOf(live)
	if !ok {
		return nil, &refusal{text: object.String() + ": its data cannot be read"}, nil
	}
	return data, nil, nil
}

// take returns the values of an object's references, or why that is not possible for one of them.
func take(
	texts map[string]string, references map[string]clusterref.Reference, data map[string]string, had map[string]GivenValue,
) (map[string]GivenValue, *refusal) {
	fresh := map[string]GivenValue{}
	for _, key := range slices.Sorted(maps.Keys(references)) {
		reference := references[key]
		text, ok := data[reference.Key]
		if reference.Key == "" {
			encoded, err := json.Marshal(data)
			if err != nil {
				return nil, &refusal{text: reference.String() + " cannot be encoded"}
			}
			text, ok = string(encoded), true
		}
		_, hadBefore := had[key]
		switch {
		case !ok && reference.IsOptional && !hadBefore:
			continue
		case !ok:
			return nil, &refusal{text: fmt.Sprintf("%s has no key %q with a text; add it, or correct the reference", reference.Object, reference.Key), isAbsent: true}
		case len(text) > maxValue:
			return nil, &refusal{text: fmt.Sprintf("the value has %d bytes; at most %d are allowed", len(text), maxValue)}
		}
		fresh[key] = GivenValue{Reference: texts[key], Text: text, IsPublic: reference.Kind == clusterref.ConfigMap}
	}
	return fresh, nil
}

// keep returns what the service had by exactly these references, with a notice, or the problem of a
// service that never had a value.
func keep(
	before Given, texts map[string]string, references map[string]clusterref.Reference, why *refusal, all *Manifests,
) (map[string]GivenValue, error) {
	kept := map[string]GivenValue{}
	for _, key := range slices.Sorted(maps.Keys(references)) {
		had, ok := before.References[key]
		switch {
		case ok && had.Reference == texts[key]:
			kept[key] = had
			if all.Notice == nil {
				all.Notice = reason.Errorf(reason.ConfigMissing, "%s: %s: %s; the value from before stays in use", key, texts[key], why.text)
			}
		case !references[key].IsOptional || !why.isAbsent:
			return nil, reason.Errorf(reason.ConfigMissing, "%s: %s: %s", key, texts[key], why.text)
		}
	}
	return kept, nil
}
