// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kustomize

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/kio"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/render"
)

// decodeKustomization decodes a kustomization as kustomize does, and rejects content that another
// decoder would read differently. Kustomize treats Resources, RESOURCES and resources as the same
// key.
func decodeKustomization(content []byte) (types.Kustomization, error) {
	var k, exact types.Kustomization
	if err := k.Unmarshal(content); err != nil {
		return k, err
	}
	encoded, err := yaml.YAMLToJSON(content)
	if err != nil {
		return k, err
	}
	mistakes, err := kjson.UnmarshalStrict(encoded, &exact)
	if err != nil {
		return k, err
	}
	for _, mistake := range mistakes {
		return k, explainKey(mistake)
	}
	if len(k.HelmCharts) > 0 || len(k.HelmChartInflationGenerator) > 0 {
		return k, errHelm
	}
	if !reflect.DeepEqual(k, exact) {
		return k, errors.New("is ambiguous: it reads differently with and without regard to the case of its keys")
	}
	return k, nil
}

var unknownField = regexp.MustCompile(`^unknown field "(?:.*\.)?([^".]+)"$`)

// explainKey adds the right spelling to an error about a key that kustomize's type has in another
// spelling.
func explainKey(mistake error) error {
	match := unknownField.FindStringSubmatch(mistake.Error())
	if match == nil {
		return mistake
	}
	for _, canonical := range keysOf(reflect.TypeFor[types.Kustomization](), map[reflect.Type]bool{}) {
		if canonical != match[1] && strings.EqualFold(canonical, match[1]) {
			return fmt.Errorf("%w: write %s", mistake, canonical)
		}
	}
	return mistake
}

// keysOf returns the keys of a type and of the types of its fields.
func keysOf(t reflect.Type, seen map[reflect.Type]bool) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || seen[t] {
		return nil
	}
	seen[t] = true
	var keys []string
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" {
			keys = append(keys, name)
		}
		keys = append(keys, keysOf(field.Type, seen)...)
	}
	return keys
}

// checkPlugin returns an error if configurations of generators or transformers name remote files.
// It decodes them as kustomize does, and ignores text that kustomize cannot read as a
// configuration.
func checkPlugin(name string, content []byte) error {
	if err := render.CheckAliases(content, render.Limits{}.WithDefaults().Text); err != nil {
		return &render.Error{Path: name, Cause: err}
	}
	nodes, err := kio.FromBytes(content)
	if err != nil {
		return nil //nolint:nilerr // kustomize cannot read it either, and explains it better
	}
	for _, node := range nodes {
		encoded, err := node.MarshalJSON()
		if err != nil {
			continue // such as a text that is a path, not a configuration; kustomize also writes configurations as JSON
		}
		var value any
		if err := json.Unmarshal(encoded, &value); err != nil {
			return &render.Error{Path: name, Cause: fmt.Errorf("read configuration: %w", err)}
		}
		if target := remoteIn(value, false); target != "" {
			return &render.Error{Path: name, Cause: fmt.Errorf("%q: %w", render.Excerpt(target), errRemote)}
		}
	}
	return nil
}
