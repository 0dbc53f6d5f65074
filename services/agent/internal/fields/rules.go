// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
)

// maxOwnPointers bounds the pointers in an object's annotation, because each pointer with a star is
// looked for in the whole object.
const maxOwnPointers = 100

// IgnoreAnnotation on an object lists pointers to fields that are left to others, separated by
// commas.
const IgnoreAnnotation = "leat.dev/ignore"

// Rules define which fields of which objects are left to others. They are safe for concurrent use.
// The nil Rules have only the rules that objects carry themselves.
type Rules struct {
	rules []rule
}

// rule is a compiled [syncpolicy.IgnoreRule].
type rule struct {
	objects Selector
	ignored Ignored
}

// Compile parses rules. Errors are [ErrInvalid].
func Compile(from []syncpolicy.IgnoreRule) (*Rules, error) {
	r := &Rules{}
	for i, one := range from {
		compiled, err := compile(one)
		if err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
		r.rules = append(r.rules, compiled)
	}
	return r, nil
}

func compile(from syncpolicy.IgnoreRule) (rule, error) {
	objects, err := Select(from.Objects)
	if err != nil {
		return rule{}, err
	}
	pointers, err := parseAll(from.Pointers)
	return rule{objects, Ignored{from.Pointers, pointers, from.Managers}}, err
}

// parseAll returns all pointers, or none and the error about the first invalid one.
func parseAll(texts []string) ([]pointer, error) {
	var all []pointer
	for _, text := range texts {
		p, err := parse(text)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// Ignored names the fields of one object that are left to others. The zero Ignored names none.
type Ignored struct {
	texts    []string // of the pointers
	pointers []pointer
	managers []string
}

// Of returns the fields of o that are ignored. The only error is [ErrInvalid] about the object's
// own annotation, of which then nothing is ignored.
func (r *Rules) Of(o *unstructured.Unstructured) (Ignored, error) {
	var all Ignored
	if r != nil {
		for _, one := range r.rules {
			if one.objects.Match(o) {
				all = all.and(one.ignored)
			}
		}
	}
	text := annotation(o, IgnoreAnnotation)
	if text == "" {
		return all, nil
	}
	texts := split(text)
	if len(texts) > maxOwnPointers {
		return all, fmt.Errorf("%w: %s holds %d pointers, want at most %d",
			ErrInvalid, IgnoreAnnotation, len(texts), maxOwnPointers)
	}
	own, err := parseAll(texts)
	return all.and(Ignored{texts: texts, pointers: own}), err
}

// and returns the fields of both.
func (i Ignored) and(other Ignored) Ignored {
	return Ignored{
		append(i.texts, other.texts...), append(i.pointers, other.pointers...), append(i.managers, other.managers...),
	}
}

// split separates pointers at the commas before a slash; other commas belong to selectors.
func split(text string) []string {
	var all []string
	for part := range strings.SplitSeq(text, ",") {
		if trimmed := strings.TrimSpace(part); strings.HasPrefix(trimmed, "/") || len(all) == 0 {
			all = append(all, trimmed)
		} else {
			all[len(all)-1] += "," + trimmed
		}
	}
	return all
}

func annotation(o *unstructured.Unstructured, name string) string {
	metadata, _ := o.Object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	text, _ := annotations[name].(string)
	return text
}

// Empty reports whether nothing is ignored.
func (i Ignored) Empty() bool {
	return len(i.pointers) == 0 && len(i.managers) == 0
}

// String spells the ignored fields, or returns "" if nothing is ignored. Equal texts ignore the
// same.
func (i Ignored) String() string {
	if i.Empty() {
		return ""
	}
	return fmt.Sprintf("%q %q", i.texts, i.managers)
}

// Manager reports whether all fields of a manager are ignored.
func (i Ignored) Manager(name string) bool { return i.pattern(name) >= 0 }

// pattern returns the position of the first pattern that a manager's name matches, or -1.
func (i Ignored) pattern(name string) int {
	return slices.IndexFunc(i.managers, func(pattern string) bool { return syncpolicy.Match(pattern, name) })
}

// Selector chooses objects. It is safe for concurrent use.
type Selector struct {
	group, kind, namespace, name string
	labels                       labels.Selector // nil: any
}

// Select parses a selector. Errors are [ErrInvalid].
func Select(from syncpolicy.Selector) (Selector, error) {
	s := Selector{group: from.Group, kind: from.Kind, namespace: from.Namespace, name: from.Name}
	if from.Labels == "" {
		return s, nil
	}
	var err error
	if s.labels, err = labels.Parse(from.Labels); err != nil {
		return Selector{}, fmt.Errorf("%w: labels %q: %w", ErrInvalid, from.Labels, err)
	}
	return s, nil
}

// Match reports whether the selector chooses o.
func (s Selector) Match(o *unstructured.Unstructured) bool {
	kind := o.GroupVersionKind()
	return syncpolicy.MatchGroup(s.group, kind.Group) && (s.kind == "" || syncpolicy.Match(s.kind, kind.Kind)) &&
		(s.namespace == "" || syncpolicy.Match(s.namespace, o.GetNamespace())) &&
		(s.name == "" || syncpolicy.Match(s.name, o.GetName())) &&
		(s.labels == nil || s.labels.Matches(labels.Set(o.GetLabels())))
}
