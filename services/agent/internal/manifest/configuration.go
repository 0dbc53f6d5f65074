// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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

// Configuration is what the hub sends of a service's configuration.
type Configuration struct {
	render.Variables
	// References are texts of references into the service's own cluster, by key; see
	// [clusterref.Parse].
	References map[string]string
	// Restart has a change of the configuration roll the service's pods.
	Restart bool
}

// Reads are objects of the cluster that a render has read.
type Reads map[inventory.Ref]Read

// Read is how an object was read.
type Read struct {
	// Reader has read it.
	Reader *confine.Reader
	// Version is the resource version. Empty: the object does not exist, or the cluster refuses it.
	Version string
}

// add records that an object was read, with the answer. A read beyond the service's bounds was none.
func (r *Reads) add(reader *confine.Reader, ref inventory.Ref, live *unstructured.Unstructured, err error) {
	if confine.IsRefusal(err) {
		return
	}
	if *r == nil {
		*r = Reads{}
	}
	read := Read{Reader: reader}
	if live != nil {
		read.Version = live.GetResourceVersion()
	}
	(*r)[ref] = read
}

// follow puts what the references of a configuration lead to among its variables.
//
// The references into one object stand or fall together, as they do in the hub: a user name of
// yesterday does not go with the password of today. If one of them cannot be given, the service
// keeps what it had by exactly these references, and the problem becomes a notice. Without that the
// render fails (ConfigMissing), and what is applied stays.
func (r Renderer) follow(ctx context.Context, s plan.Service, c *Configuration, given *given, all *Manifests) error {
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
	reader, err := r.Readers.Reader(s)
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
			if fresh, err = given.keep(given.before(ctx), c.References, groups[object], why, all); err != nil {
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

// isDenied reports whether the API server refused a read, or the agent one in its own namespace.
func isDenied(err error) bool {
	if err == nil {
		return false
	}
	why := reason.ProblemOf(err).Reason
	return why == reason.TenantForbidden || why == reason.ApplyRejected
}

// dataOf returns the texts of a Secret or a ConfigMap; false if its data cannot be read. Values that
// are not text are left out.
func dataOf(live *unstructured.Unstructured) (data map[string]string, ok bool) {
	held, _, err := unstructured.NestedStringMap(live.Object, "data")
	if err != nil {
		return nil, false
	}
	data = map[string]string{}
	for key, text := range held {
		if live.GetKind() == clusterref.Secret {
			plain, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return nil, false
			}
			text = string(plain)
		}
		if utf8.ValidString(text) {
			data[key] = text
		}
	}
	return data, true
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
