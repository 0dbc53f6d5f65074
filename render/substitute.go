// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/reason"
)

// SubstituteAnnotation keeps an object's texts unchanged if its value is "disabled".
const SubstituteAnnotation = "leat.dev/substitute"

const substituteDisabled = "disabled"

// maxGrowth bounds the bytes that variables add to the objects of one service.
const maxGrowth = 16 << 20

// Variables are the values of the expressions in manifests. A name is in one of the two maps.
type Variables struct {
	Values map[string]string
	// Secrets may be used everywhere except in an object's apiVersion, kind and metadata, which are
	// shown to people.
	Secrets map[string]string
}

// VariableError names the variables of an object that have neither value nor default.
type VariableError struct {
	// Object is kind and name, as the manifest writes them.
	Object string
	// Names are the variables, sorted. If there are more than 20, it holds only some of them.
	Names []string
}

// Reason implements reason.ReasonedError.
func (e *VariableError) Reason() reason.Reason { return reason.VariableMissing }

// Error implements error.
func (e *VariableError) Error() string {
	return fmt.Sprintf("%s: the service's configuration has no variable %s; add it to spec.config, or give a default: ${%s:-…}",
		e.Object, strings.Join(e.Names, ", "), e.Names[0])
}

// Substitution puts one service's variables into its objects. It works on parsed values. The value
// of a variable becomes part of one text, or is itself a number or boolean, and never adds a field
// or an item. It is for one goroutine.
type Substitution struct {
	variables Variables
	room      int
	tainted   map[string]struct{}
	forms     forms // of all secrets
}

// NewSubstitution returns the substitution of the variables.
func NewSubstitution(v Variables) *Substitution {
	return &Substitution{variables: v, room: maxGrowth, tainted: map[string]struct{}{}, forms: formsOf(v.Secrets)}
}

func (s *Substitution) lookUp(name string) (value string, secret, known bool) {
	if value, known = s.variables.Values[name]; known {
		return value, false, true
	}
	value, known = s.variables.Secrets[name]
	return value, known, known
}

// document substitutes variables in one object, or in each item of a list. The node is the parsed
// text of the object, or nil if that has lost its author's quotes.
func (s *Substitution) document(fields map[string]any, node *yaml.Node) error {
	object := unstructured.Unstructured{Object: fields}
	if !object.IsList() {
		return s.object(&object, node)
	}
	items, _ := fields["items"].([]any)
	nodes := quotes(node)["items"]
	for i, item := range items {
		fields, ok := item.(map[string]any)
		if !ok {
			continue // check reports it later
		}
		if err := s.document(fields, itemOf(nodes, i)); err != nil {
			return fmt.Errorf("item %d: %w", i+1, err)
		}
	}
	return nil
}

func (s *Substitution) object(object *unstructured.Unstructured, node *yaml.Node) error {
	if object.GetAnnotations()[SubstituteAnnotation] == substituteDisabled {
		return nil
	}
	w := walk{substitution: s, object: object, name: strings.TrimSpace(object.GetKind() + " " + object.GetName())}
	if err := w.fields(object.Object, place{node: node}); err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	if len(w.missing) > 0 {
		slices.Sort(w.missing)
		return &VariableError{Object: w.name, Names: w.missing}
	}
	return nil
}

// walk is a traversal of one object.
type walk struct {
	substitution *Substitution
	object       *unstructured.Unstructured
	name         string
	missing      []string
}

// place is the current position of a walk.
type place struct {
	parent *place
	name   string
	node   *yaml.Node // nil if it is unknown
	text   bool       // Kubernetes expects text here
	shown  bool       // the value is shown to people
}

// path names the place for a message.
func (p *place) path() string {
	switch {
	case p.parent == nil || p.parent.parent == nil:
		return p.name
	case strings.HasPrefix(p.name, "["):
		return p.parent.path() + p.name
	default:
		return p.parent.path() + "." + p.name
	}
}

func (w *walk) fields(fields map[string]any, at place) error {
	nodes := quotes(at.node)
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		below := place{
			parent: &at, name: key, node: nodes[key],
			text:  at.text || w.isTextual(&at, key, fields),
			shown: at.shown || at.parent == nil && (key == "apiVersion" || key == "kind" || key == "metadata"),
		}
		value, err := w.value(fields[key], below)
		if err != nil {
			return err
		}
		fields[key] = value
	}
	return nil
}

func (w *walk) value(value any, at place) (any, error) {
	switch v := value.(type) {
	case map[string]any:
		return v, w.fields(v, at)
	case []any:
		for i, item := range v {
			below := place{parent: &at, name: "[" + strconv.Itoa(i) + "]", node: itemOf(at.node, i), text: at.text, shown: at.shown}
			replaced, err := w.value(item, below)
			if err != nil {
				return nil, err
			}
			v[i] = replaced
		}
		return v, nil
	case string:
		if strings.Contains(v, "${") {
			return w.scalar(v, at)
		}
	}
	return value, nil
}

// scalar substitutes variables in one text.
func (w *walk) scalar(text string, at place) (any, error) {
	s := w.substitution
	x := expansion{lookUp: s.lookUp, room: s.room}
	expanded, whole, err := x.expand(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at.path(), err)
	}
	s.room = x.room
	w.addMissing(x.missing)
	if len(x.secrets) > 0 {
		if at.shown {
			return nil, fmt.Errorf("%s: %s is a secret, and this is shown to people; use a value instead", at.path(), x.secrets[0])
		}
		s.tainted[expanded] = struct{}{}
	}
	if whole && !at.text && !isQuoted(at.node) {
		return Typed(expanded), nil
	}
	return expanded, nil
}

// addMissing records the names of missing variables, up to the number that a message lists.
func (w *walk) addMissing(names []string) {
	for _, name := range names {
		if len(w.missing) < maxMissing && !slices.Contains(w.missing, name) {
			w.missing = append(w.missing, name)
		}
	}
}

// isTextual reports whether Kubernetes accepts only text in a field, so that 1 and true stay text.
// It decides if the quotes are unknown, because kustomize drops them.
func (w *walk) isTextual(at *place, key string, siblings map[string]any) bool {
	switch key {
	case "metadata", "labels", "annotations", "matchLabels", "nodeSelector", "selector", "command", "args":
		return true
	case "data", "stringData", "binaryData":
		kind := w.object.GetKind()
		return at.parent == nil && w.object.GroupVersionKind().Group == "" && (kind == "ConfigMap" || kind == "Secret")
	case "value": // of a variable of a container's environment, of a toleration
		_, named := siblings["name"]
		_, keyed := siblings["key"]
		return named || keyed
	}
	return false
}

// Typed returns the boolean or number that a text spells in its usual form, and any other text
// unchanged: 1.10 and 007 are versions and codes, and would lose something as numbers.
func Typed(text string) any {
	switch text {
	case "true":
		return true
	case "false":
		return false
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && strconv.FormatInt(n, 10) == text {
		return n
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && strings.Contains(text, ".") && strconv.FormatFloat(f, 'f', -1, 64) == text {
		return f
	}
	return text
}

// quotesOf parses a document for its author's quotes, or returns nil if it cannot be parsed.
func quotesOf(text []byte) *yaml.Node {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil || len(document.Content) == 0 {
		return nil
	}
	return document.Content[0]
}

// isQuoted reports whether the author has quoted the text.
func isQuoted(node *yaml.Node) bool {
	node = target(node)
	return node != nil && node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) != 0
}

// quotes returns the fields of a mapping, including merged ones (<<).
func quotes(node *yaml.Node) map[string]*yaml.Node {
	node = target(node)
	if node == nil || node.Kind != yaml.MappingNode {
		return nil
	}
	fields := make(map[string]*yaml.Node, len(node.Content)/2)
	for i := 0; i+1 < len(node.Content); i += 2 {
		if key := node.Content[i]; key.Tag != "!!merge" {
			fields[key.Value] = node.Content[i+1]
			continue
		}
		for name, value := range merged(target(node.Content[i+1])) {
			if fields[name] == nil {
				fields[name] = value
			}
		}
	}
	return fields
}

func merged(node *yaml.Node) map[string]*yaml.Node {
	if node.Kind != yaml.SequenceNode {
		return quotes(node)
	}
	all := map[string]*yaml.Node{}
	for _, item := range slices.Backward(node.Content) {
		maps.Copy(all, quotes(item))
	}
	return all
}

func itemOf(node *yaml.Node, i int) *yaml.Node {
	node = target(node)
	if node == nil || node.Kind != yaml.SequenceNode || i >= len(node.Content) {
		return nil
	}
	return node.Content[i]
}

// target follows an alias.
func target(node *yaml.Node) *yaml.Node {
	if node != nil && node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}
