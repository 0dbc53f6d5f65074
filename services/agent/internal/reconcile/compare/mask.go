// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/services/agent/internal/k8s"
)

const (
	maskedText    = "(masked)"
	maskedChanged = "(masked, changed)"
)

// maskText masks a text, but not its absence.
func maskText(text string) string {
	if text == "" {
		return ""
	}
	return maskedText
}

// maskSecret masks the values of a Secret. A diff then shows which keys change, and neither their
// values nor the lengths of these.
func maskSecret(before, after *unstructured.Unstructured) {
	for _, field := range []string{"data", "stringData"} {
		old, updated := secretValues(before, field), secretValues(after, field)
		for key, value := range old {
			if other, ok := updated[key]; ok && other != value {
				updated[key] = maskedChanged
			} else if ok {
				updated[key] = maskedText
			}
			old[key] = maskedText
		}
		for key := range updated {
			if _, known := old[key]; !known {
				updated[key] = maskedText
			}
		}
	}
	for _, o := range []*unstructured.Unstructured{before, after} {
		if isSecret(o) {
			unstructured.RemoveNestedField(o.Object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
		}
	}
}

// secretValues returns a Secret's own map of values, or nil for other objects.
func secretValues(o *unstructured.Unstructured, field string) map[string]any {
	if !isSecret(o) {
		return nil
	}
	found, _ := o.Object[field].(map[string]any)
	return found
}

func isSecret(o *unstructured.Unstructured) bool {
	return o != nil && o.GetKind() == "Secret" && o.GroupVersionKind().Group == ""
}

// masker replaces texts that contain secrets of the configuration. Within one comparison, equal
// texts get equal masks and different texts different ones, so that changes show.
type masker struct {
	secrets Secrets
	public  map[string]bool // texts that may be shown; nil: all that contain no known secret
	masks   map[string]string
}

// newMasker returns the masker for one comparison. Either object may be nil.
func newMasker(secrets Secrets, before, after *unstructured.Unstructured) *masker {
	m := &masker{secrets: secrets, masks: map[string]string{}}
	if !secrets.IsStale {
		return m
	}
	m.public = map[string]bool{}
	if before != nil { // its identity is public anyway
		for _, text := range []string{
			before.GetAPIVersion(), before.GetKind(), before.GetName(), before.GetNamespace(), k8s.ServiceOf(before),
		} {
			m.public[text] = true
		}
	}
	if after != nil {
		m.publish(after.Object)
	}
	return m
}

func (m *masker) publish(value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, field := range value {
			m.publish(field)
		}
	case []any:
		for _, item := range value {
			m.publish(item)
		}
	default:
		m.public[fmt.Sprint(value)] = true
	}
}

// maskObject masks the secrets in an object, which it modifies.
func (m *masker) maskObject(o *unstructured.Unstructured) {
	if o != nil {
		m.maskFields(o.Object)
	}
}

func (m *masker) maskFields(fields map[string]any) {
	for key, value := range fields {
		fields[key] = m.maskValue(value)
	}
}

func (m *masker) maskValue(value any) any {
	switch value := value.(type) {
	case map[string]any:
		m.maskFields(value)
	case []any:
		for i, item := range value {
			value[i] = m.maskValue(item)
		}
	case bool, nil:
	default:
		text := fmt.Sprint(value)
		if m.secrets.Substitution.Reveals(text) || m.public != nil && !m.public[text] {
			return m.mask(text)
		}
	}
	return value
}

// mask returns the mask of a text, which reveals only whether two texts are equal.
func (m *masker) mask(text string) string {
	if m.masks[text] == "" {
		m.masks[text] = fmt.Sprintf("(masked %d)", len(m.masks)+1)
	}
	return m.masks[text]
}
