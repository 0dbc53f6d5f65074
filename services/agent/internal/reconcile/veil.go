// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/render"
)

// veil hides the secrets of a service's configuration in what is shown of one object before and after, whatever its kind.
// Equal texts get equal masks and others different ones, so that changes are seen.
type veil struct {
	// substitution knows the secrets; nil where there is no configuration.
	substitution *render.Substitution
	// public are the texts of the desired object. Nil shows whatever holds no secret of the configuration; otherwise only
	// these are shown: another configuration was applied last, whose secrets nobody here knows any more.
	public map[string]bool
	masks  map[string]string
}

// newVeil returns the veil for one comparison. Either object may be nil. Stale tells that another configuration than that
// of the substitution was applied last.
func newVeil(s *render.Substitution, stale bool, before, after *unstructured.Unstructured) *veil {
	v := &veil{substitution: s, masks: map[string]string{}}
	if !stale {
		return v
	}
	v.public = map[string]bool{}
	if before != nil { // how it is known anyway
		for _, text := range []string{before.GetAPIVersion(), before.GetKind(), before.GetName(), before.GetNamespace(), before.GetLabels()[k8s.ServiceLabel]} {
			v.public[text] = true
		}
	}
	if after != nil {
		v.publish(after.Object)
	}
	return v
}

func (v *veil) publish(value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, field := range value {
			v.publish(field)
		}
	case []any:
		for _, item := range value {
			v.publish(item)
		}
	default:
		v.public[fmt.Sprint(value)] = true
	}
}

// cover hides in the object, which it changes, what has to be hidden.
func (v *veil) cover(o *unstructured.Unstructured) {
	if o != nil {
		v.fields(o.Object)
	}
}

func (v *veil) fields(fields map[string]any) {
	for key, value := range fields {
		fields[key] = v.value(value)
	}
}

func (v *veil) value(value any) any {
	switch value := value.(type) {
	case map[string]any:
		v.fields(value)
	case []any:
		for i, item := range value {
			value[i] = v.value(item)
		}
	case bool, nil:
	default:
		text := fmt.Sprint(value)
		if v.substitution.Reveals(text) || v.public != nil && !v.public[text] {
			return v.mask(text)
		}
	}
	return value
}

// mask tells nothing of a text, its length included, but whether it is the same as another.
func (v *veil) mask(text string) string {
	if v.masks[text] == "" {
		v.masks[text] = fmt.Sprintf("(masked %d)", len(v.masks)+1)
	}
	return v.masks[text]
}
