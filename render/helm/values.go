// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/strvals"

	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/render"
)

// mergeValues returns the values that override the chart's own: the values of the files, in their
// order, then the step's values, then its parameters. Maps are merged, lists are replaced, and null
// removes a value of the chart.
func mergeValues(in render.StepInput, options renderstep.HelmOptions) (map[string]any, error) {
	merged := map[string]any{}
	for i, name := range options.ValuesFiles {
		fromFile, err := readValues(in, fmt.Sprintf("valuesFiles[%d]", i), name)
		if err != nil {
			return nil, err
		}
		merged = loader.MergeMaps(merged, fromFile)
	}
	own, err := in.Variables.Expand("helm.values", options.Values)
	if err != nil {
		return nil, err
	}
	if fields, ok := own.(map[string]any); ok {
		merged = loader.MergeMaps(merged, fields)
	}
	if options.FactsAt != "" {
		if merged, err = withFacts(merged, options.FactsAt, in.Facts); err != nil {
			return nil, err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(options.Parameters)) {
		value, err := in.Variables.Expand("helm.parameters."+key, options.Parameters[key])
		if err != nil {
			return nil, err
		}
		if err := set(merged, key, value); err != nil {
			return nil, &render.Error{Path: "helm.parameters." + key, Cause: err}
		}
	}
	return merged, nil
}

// readValues returns the values of a file, or none if the file may be missing and is.
func readValues(in render.StepInput, field, name string) (map[string]any, error) {
	name, mayMiss := strings.CutSuffix(name, "?")
	content, ok := in.Files.Get(name)
	if !ok && mayMiss {
		return nil, nil
	}
	if !ok {
		return nil, &render.Error{Path: name, Cause: fmt.Errorf("no such file in the service's tree; helm.%s names it, "+
			"and a ? behind the name lets it be missing", field)}
	}
	if err := checkAliases(name, content, in.Limits); err != nil {
		return nil, err
	}
	values, err := loader.LoadValues(bytes.NewReader(bytes.TrimPrefix(content, byteOrderMark)))
	if err != nil {
		return nil, &render.Error{Path: name, Cause: fmt.Errorf("read values: %w", err)}
	}
	return values, nil
}

// withFacts returns the values with the facts at a path of theirs.
func withFacts(values map[string]any, at string, facts render.Facts) (map[string]any, error) {
	text, err := json.Marshal(facts)
	if err != nil {
		return nil, fmt.Errorf("write facts: %w", err)
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("read facts: %w", err)
	}
	for _, step := range slices.Backward(strings.Split(at, ".")) {
		tree = map[string]any{step: tree}
	}
	return loader.MergeMaps(values, tree), nil
}

// set puts a value at a path in the syntax of helm --set. The value is not parsed.
func set(values map[string]any, key string, value any) error {
	escaped := false
	for _, c := range key {
		if !escaped && (c == '=' || c == ',') {
			return fmt.Errorf("is not one path of values: put a \\ before %q if it belongs to a name", c)
		}
		escaped = !escaped && c == '\\'
	}
	return strvals.ParseIntoFile(key+"=value", values, func([]rune) (any, error) { return value, nil })
}
