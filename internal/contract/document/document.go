// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package document reads and writes Leat's declarative documents: YAML or JSON that looks like
// Kubernetes objects and represents the messages of leat.fleet.v1.
//
//	apiVersion: leat.dev/v1
//	kind: Service
//	metadata: {name: shop}
//	spec: {cluster: demo, sources: [{repository: shop, path: deploy}]}
//
// Reading is strict. A field that is unknown, given twice or of the wrong type is refused with its
// file, line and column; nothing is guessed and nothing is dropped silently. It walks YAML nodes
// beside the protobuf descriptors, so documents support a new field of the protocol at once. Fields
// have their JSON names, enum values their short lower-case names ("git" for REPOSITORY_TYPE_GIT),
// durations the form "2m30s".
package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/fleetdoc"
)

const (
	// APIVersion is the version of documents that this package reads and writes.
	APIVersion = "leat.dev/v1"

	// maxFileBytes bounds one file. A thousand services need about a tenth.
	maxFileBytes = 4 << 20
	// maxNodes bounds the expansion of a small file by aliases.
	maxNodes = 200_000
)

// Document is one document with the positions of its fields.
type Document struct {
	Object *fleetv1.Document // in the hub's form, without status
	Kind   string            // such as "Service"
	Name   string            // metadata.name
	Start  Position          // where the document begins

	fields map[string]Position // by path, such as spec.sources[0].path
}

// ID returns the object's name for people: "repository/shop", or "repository/PROJECT/shop" where it
// names a project. That of a service has its cluster: "service/shop@berlin".
func (d *Document) ID() string {
	_, name := Identify(d.Object)
	return strings.ToLower(d.Kind) + "/" + name
}

// Parse reads all documents of one file. Messages refer to the file by name. The error is Problems
// if the content is invalid, and then holds every problem, not only the first.
func Parse(name string, r io.Reader) ([]*Document, error) {
	return ParseWithin(name, r, new(maxNodes))
}

// ParseWithin is Parse for one of several files, which share the budget of nodes that they may hold
// together once aliases are expanded. It subtracts the nodes of this file from the budget.
func ParseWithin(name string, r io.Reader, budget *int) ([]*Document, error) {
	content, err := io.ReadAll(io.LimitReader(r, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(content) > maxFileBytes {
		return nil, Problems{{Position: Position{File: name}, Message: "larger than 4 MiB; split the file"}}
	}
	most := min(maxNodes, *budget)
	d := decoder{file: name, budget: most}
	d.stream(content)
	*budget -= most - max(d.budget, 0)
	if len(d.problems) > 0 {
		return nil, d.problems
	}
	return d.documents, nil
}

// stream decodes documents up to the first that is not YAML.
func (d *decoder) stream(content []byte) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var root yaml.Node
		err := decoder.Decode(&root)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			d.problems = append(d.problems, syntaxProblem(d.file, err))
			return
		}
		if node := root.Content[0]; node.Tag != nullTag {
			d.object(node)
		}
	}
}

// The YAML parser reports the line of a syntax error only in its text.
var syntaxLine = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?`)

func syntaxProblem(file string, err error) Problem {
	text := err.Error()
	match := syntaxLine.FindStringSubmatch(text)
	line := 1 // the parser omits line 1
	if n, err := strconv.Atoi(match[1]); err == nil {
		line = n
	}
	return Problem{
		Position: Position{File: file, Line: line},
		Message:  "not YAML: " + strings.TrimPrefix(text, match[0]),
	}
}

// object decodes one document, or the items of a List.
func (d *decoder) object(node *yaml.Node) {
	node = resolve(node)
	if d.spent(node, "") {
		return
	}
	if node.Kind != yaml.MappingNode {
		d.problem(node, "", "want a document with apiVersion, kind, metadata and spec, got "+describe(node))
		return
	}
	if !d.header(node) {
		return
	}
	kind := child(node, "kind").Value
	if kind == "List" {
		d.list(node)
		return
	}
	field := fleetdoc.Kinds()[kind]
	if field == nil {
		d.problem(child(node, "kind"), "kind", fmt.Sprintf("unknown kind %q%s", kind, Suggest(kind, kindNames())))
		return
	}
	d.document(node, kind, field)
}

// header checks apiVersion and kind, and that kind is one word.
func (d *decoder) header(node *yaml.Node) bool {
	for _, name := range []string{"apiVersion", "kind"} {
		value := child(node, name)
		if value == nil || value.Value == "" && value.Kind == yaml.ScalarNode {
			d.problem(node, name, "is required"+headerHint(name, node))
			return false
		}
		if value.Kind != yaml.ScalarNode {
			d.problem(value, name, "want text, got "+describe(value))
			return false
		}
	}
	version := child(node, "apiVersion")
	if version.Value == APIVersion || version.Value == "v1" && child(node, "kind").Value == "List" {
		return true
	}
	d.problem(version, "apiVersion", versionAdvice(version.Value))
	return false
}

func headerHint(name string, node *yaml.Node) string {
	if name == "apiVersion" {
		return "; write apiVersion: " + APIVersion
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if key := node.Content[i].Value; strings.EqualFold(key, name) {
			return fmt.Sprintf("; did you mean %q by %q?", name, key)
		}
	}
	return "; one of " + strings.Join(kindNames(), ", ")
}

func versionAdvice(version string) string {
	if strings.HasPrefix(version, "leat.dev/") {
		return fmt.Sprintf("unknown version %q; this leat knows %s", version, APIVersion)
	}
	return fmt.Sprintf("%q is not one of Leat's documents (%s); Kubernetes manifests belong in a repository that a Service names",
		version, APIVersion)
}

func (d *decoder) list(node *yaml.Node) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], resolve(node.Content[i+1])
		switch {
		case slices.Contains([]string{"apiVersion", "kind", "metadata"}, key.Value):
		case key.Value != "items":
			d.problem(key, key.Value, "unknown field of a List"+Suggest(key.Value, []string{"items"}))
		case value.Kind != yaml.SequenceNode:
			d.problem(value, "items", "want a list, got "+describe(value))
		default:
			d.items(value)
		}
	}
}

func (d *decoder) items(list *yaml.Node) {
	for _, item := range list.Content {
		item = resolve(item)
		if kind := child(item, "kind"); kind != nil && kind.Value == "List" {
			d.problem(kind, "kind", "a List inside a List is not supported")
			continue
		}
		d.object(item)
	}
}

// child returns the value of a mapping's key, or nil.
func child(node *yaml.Node, key string) *yaml.Node {
	if node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return resolve(node.Content[i+1])
		}
	}
	return nil
}

// resolve returns the node that an alias refers to.
func resolve(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}
