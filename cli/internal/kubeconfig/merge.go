// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Merge returns the file existing with the entries of added, which replace entries of the same
// names. Everything else stays, and so does the current context if there is one. An empty file
// counts as absent.
func Merge(existing, added []byte) ([]byte, error) {
	var into, from map[string]any
	if err := yaml.Unmarshal(existing, &into); err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	if into == nil {
		return added, nil
	}
	if err := yaml.Unmarshal(added, &from); err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	if into["kind"] != "Config" {
		return nil, errors.New("it is not a kubeconfig: its kind is not Config")
	}
	for _, part := range []string{"clusters", "users", "contexts"} {
		have, ok := into[part].([]any)
		if into[part] != nil && !ok {
			return nil, fmt.Errorf("its %s are not a list", part)
		}
		fresh, _ := from[part].([]any)
		kept := slices.DeleteFunc(have, func(entry any) bool {
			return slices.ContainsFunc(fresh, func(other any) bool { return nameOf(entry) != "" && nameOf(entry) == nameOf(other) })
		})
		into[part] = append(kept, fresh...)
	}
	if current, _ := into["current-context"].(string); current == "" {
		into["current-context"] = from["current-context"]
	}
	content, err := yaml.Marshal(into)
	if err != nil {
		return nil, fmt.Errorf("make kubeconfig: %w", err)
	}
	return content, nil
}

func nameOf(entry any) string {
	fields, _ := entry.(map[string]any)
	name, _ := fields["name"].(string)
	return name
}
