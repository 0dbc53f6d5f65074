// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"errors"
	"fmt"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"

	"github.com/leatdev/leat/render/schema"
)

// checkSchemas compares the values of a chart and of its dependencies with their schemas.
func checkSchemas(c *chart.Chart, values any) error {
	fields, err := tableOf(values)
	if err != nil {
		return fmt.Errorf("values of chart %s: %w", c.Name(), err)
	}
	var errs []error
	if c.Schema != nil {
		if err := checkSchema(c.Schema, fields); err != nil {
			errs = append(errs, fmt.Errorf("values do not meet values.schema.json of chart %s: %w", c.Name(), err))
		}
	}
	for _, dependency := range c.Dependencies() {
		if below := fields[dependency.Name()]; below != nil {
			errs = append(errs, checkSchemas(dependency, below))
		}
	}
	return errors.Join(errs...)
}

func tableOf(values any) (map[string]any, error) {
	switch v := values.(type) {
	case map[string]any:
		return v, nil
	case common.Values:
		return v, nil
	default:
		return nil, fmt.Errorf("are a %T, want a map", values)
	}
}

func checkSchema(text []byte, values map[string]any) error {
	compiled, err := schema.Compile("values.schema.json", text, "put the definitions into the schema, or set skipSchema")
	if err != nil {
		return err
	}
	if err := compiled.Validate(values); err != nil {
		return errors.New(strings.Join(mistakes(err), "; "))
	}
	return nil
}

// mistakes returns the lines of a validation's error that name a value: "at '/replicas': got string,
// want integer".
func mistakes(err error) []string {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimPrefix(strings.TrimSpace(line), "- "); strings.HasPrefix(line, "at ") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return []string{err.Error()}
	}
	return lines
}
